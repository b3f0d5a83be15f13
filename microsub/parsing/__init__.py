"""Reading foreign documents in processes that can be ended, with limits in processor time and memory."""
