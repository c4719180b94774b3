r"""What people look at: tables in the formats that pandas, LaTeX and spreadsheets read, and figures."""
