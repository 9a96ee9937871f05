"""Errors of the station's commands, configuration, store and directory. Each text says what is wrong and what to do."""

from __future__ import annotations

from roamcast.middleware.errors import Error


class WrongUse(Error):
    """A command was given what it cannot take."""


class SchemaError(WrongUse):
    """A key or a value of the replicated configuration is not of the form that its schema asks for."""


class StationRetired(Error):
    """The group has retired this station, or given it up as lost: it must not run any more."""


class RetirementDone(StationRetired):
    """This station was retired in order, and that is done: the process ends, and nothing is wrong."""


class StationStopped(Error):
    """This station does not run (any more): it takes no mail and gives none."""


class MailUnknown(StationStopped):
    """The station has ended in the midst of it: it is not known whether the mail was taken, or is acknowledged."""


class MailReaderBusy(Error):
    """Somebody else takes the mail of this station."""


class StoreError(Error):
    """Root of every error of the store and of the station's directory."""


class StoreUnusable(StoreError):
    """The store cannot serve this station: the process must end. The file has not been changed."""


class StoreMissing(StoreUnusable):
    """There is no store. An empty one is never made in its place: its numbers would be given twice."""


class StoreExists(StoreUnusable):
    """A new store was asked for where there is one."""


class StoreForeign(StoreUnusable):
    """The file is not a store of Roamcast."""


class StoreVersion(StoreUnusable):
    """The store has a format that this release does not know."""


class StoreIdentity(StoreUnusable):
    """The store belongs to another station, slot or generation than the configuration says."""


class StoreDamaged(StoreUnusable):
    """The content of the store contradicts itself."""


class StoreNotCommitted(StoreError):
    """The transaction was rolled back as a whole; the store is as before and may be asked again later."""


class StoreFull(StoreNotCommitted):
    """There is no room for the transaction."""


class StoreUnwritable(StoreNotCommitted):
    """The directory or a file in it cannot be opened or written."""


class StoreBusy(StoreNotCommitted):
    """Another process holds the store's write lock."""


class StoreWentBack(StoreError):
    """A peer knows more of this station than its own store: an old copy must neither run nor be changed."""


class DirectoryInUse(StoreError):
    """Another process works on this station's directory."""
