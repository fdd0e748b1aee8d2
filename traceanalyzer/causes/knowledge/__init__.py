"""What several causes share: advice, evidence, and the text of findings."""
