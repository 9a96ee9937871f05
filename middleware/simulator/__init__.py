"""The deterministic composite simulator: the real cores in a hostile, virtual world, judged from outside."""
