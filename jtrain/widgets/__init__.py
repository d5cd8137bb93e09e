"""Widgets for notebooks: anywidgets whose JavaScript and CSS are plain files beside them, without a build."""
