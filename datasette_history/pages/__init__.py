"""The pages for people: sessions, files, projects and the search page."""
