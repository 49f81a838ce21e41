#!/bin/sh
# Run a command with the memory that is on a branch of the repository here, and push what the command has changed.
set -e
MEMORY_BRANCH=${MEMORY_BRANCH:-perdure-memory}
MEMORY_STATE_DIR=$(mktemp -d)
export MEMORY_STATE_DIR
trap 'rm -rf "$MEMORY_STATE_DIR"' EXIT
mkdir -p "$MEMORY_STATE_DIR"
there=$(git ls-remote -q origin "refs/heads/$MEMORY_BRANCH")
if [ -n "$there" ]; then
  git fetch -q origin "$MEMORY_BRANCH"
  git show FETCH_HEAD:memory.jsonl > "$MEMORY_STATE_DIR/memory.jsonl"
fi
"$@"
if [ "$MEMORY_BRANCH" = none ] || [ ! -s "$MEMORY_STATE_DIR/memory.jsonl" ]; then
  exit 0
fi
export GIT_AUTHOR_NAME=perdure GIT_AUTHOR_EMAIL=perdure@localhost
export GIT_COMMITTER_NAME=perdure GIT_COMMITTER_EMAIL=perdure@localhost
for attempt in 1 2 3 4 5; do
  parent=
  there=$(git ls-remote -q origin "refs/heads/$MEMORY_BRANCH")
  if [ -n "$there" ]; then
    git fetch -q origin "$MEMORY_BRANCH"
    parent=$(git rev-parse FETCH_HEAD)
    git show "$parent:memory.jsonl" | perdure memory import --lenient - >&2
  fi
  blob=$(git hash-object -w "$MEMORY_STATE_DIR/memory.jsonl")
  tree=$(printf '100644 blob %s\tmemory.jsonl\n' "$blob" | git mktree)
  if [ -n "$parent" ] && [ "$tree" = "$(git rev-parse "$parent^{tree}")" ]; then
    exit 0
  fi
  commit=$(git commit-tree "$tree" ${parent:+-p "$parent"} -m "Memory of $(git rev-parse --short HEAD)")
  if git push -q origin "$commit:refs/heads/$MEMORY_BRANCH"; then
    exit 0
  fi
done
echo "The memory was not saved: $MEMORY_BRANCH cannot be pushed. It is protected, or others push all the time." >&2
exit 1
