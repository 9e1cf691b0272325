"""Messages, transactions and waiting messages as a cluster has them."""
