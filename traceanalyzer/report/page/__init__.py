"""The report as one HTML file: made from the document alone, readable without scripts."""
