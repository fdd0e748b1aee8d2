"""Creates, writes, and reads capture files."""
