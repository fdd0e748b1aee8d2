// Lines over time and steps: drawn by uPlot where scripts run.
