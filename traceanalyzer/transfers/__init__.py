"""Who copied what to whom, what that cost, and which ops the values go back and forth for."""
