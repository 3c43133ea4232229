"""What people meet: the language server and the command line. Each renders what the engine returns, decides nothing."""
