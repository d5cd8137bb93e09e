"""The nouns of jtrain: data only, no files, no processes, no clock."""
