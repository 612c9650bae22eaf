"""Ten real corrections of small public programs as tasks in the form of SWE-bench, and their evaluation."""
