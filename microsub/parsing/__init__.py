"""Reading foreign documents in processes with limits in processor time and memory."""
