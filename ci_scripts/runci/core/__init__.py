"""What every stage hands on or stands on: values, paths, globs, git, files written whole."""
