"""Entry point of `python -m traceanalyzer`."""

from traceanalyzer.cli import main

if __name__ == "__main__":
    main()
