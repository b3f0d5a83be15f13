"""Reading foreign documents with an end: in threads what is small, in processes what may take long or much memory."""
