#!/bin/sh
# Run a command with the memory that is on a branch of the repository here, and push what the command has changed: the
# log, and the folders archive and quarantine beside it.
set -e
MEMORY_BRANCH=${MEMORY_BRANCH:-perdure-memory}
MEMORY_STATE_DIR=$(mktemp -d)
export MEMORY_STATE_DIR
trap 'rm -rf "$MEMORY_STATE_DIR"' EXIT

# Write the files of both folders as git objects, and print the entries of a tree that has them.
folders() {
  for folder in archive quarantine; do
    files=
    for file in "$MEMORY_STATE_DIR/$folder"/*.json* "$MEMORY_STATE_DIR/$folder"/*.bytes; do
      if [ -f "$file" ] && [ "${file%.new}" = "$file" ]; then
        files="$files$(printf '100644 blob %s\t%s' "$(git hash-object -w "$file")" "${file##*/}")
"
      fi
    done
    if [ -n "$files" ]; then
      printf '040000 tree %s\t%s\n' "$(printf '%s' "$files" | git mktree)" "$folder"
    fi
  done
}

loaded=
log=
base=
mkdir -p "$MEMORY_STATE_DIR"
there=$(git ls-remote -q origin "refs/heads/$MEMORY_BRANCH")
if [ -n "$there" ]; then
  git fetch -q origin "$MEMORY_BRANCH"
  git show FETCH_HEAD:memory.jsonl > "$MEMORY_STATE_DIR/memory.jsonl"
  for name in $(git ls-tree -r --full-tree --name-only FETCH_HEAD archive quarantine); do
    mkdir -p "$MEMORY_STATE_DIR/${name%/*}"
    git show "FETCH_HEAD:$name" > "$MEMORY_STATE_DIR/$name"
  done
  loaded=$(git rev-parse FETCH_HEAD)
  log=$(git rev-parse FETCH_HEAD:memory.jsonl)
  base=$(git ls-tree --full-tree FETCH_HEAD archive quarantine)
fi
before=$(folders)
"$@"
if [ "$MEMORY_BRANCH" = none ] || [ ! -s "$MEMORY_STATE_DIR/memory.jsonl" ]; then
  exit 0
fi
after=$(folders)
if [ "$(git hash-object "$MEMORY_STATE_DIR/memory.jsonl")" = "$log" ] && [ "$after" = "$before" ]; then
  exit 0
fi
export GIT_AUTHOR_NAME=perdure GIT_AUTHOR_EMAIL=perdure@localhost
export GIT_COMMITTER_NAME=perdure GIT_COMMITTER_EMAIL=perdure@localhost
for attempt in 1 2 3 4 5; do
  parent=
  beside=
  there=$(git ls-remote -q origin "refs/heads/$MEMORY_BRANCH")
  if [ -n "$there" ]; then
    git fetch -q origin "$MEMORY_BRANCH"
    parent=$(git rev-parse FETCH_HEAD)
    beside=$(git ls-tree --full-tree "$parent" archive quarantine)
    if [ "$parent" != "$loaded" ]; then
      git show "$parent:memory.jsonl" | perdure memory import --lenient - >&2
    fi
  fi
  if [ "$after" != "$before" ]; then
    if [ "$beside" != "$base" ]; then
      echo "Nothing was pushed: the archive or the quarantine on $MEMORY_BRANCH was changed meanwhile. Run the command again." >&2
      exit 1
    fi
    beside=$(folders)
  fi
  blob=$(git hash-object -w "$MEMORY_STATE_DIR/memory.jsonl")
  tree=$({ [ -z "$beside" ] || printf '%s\n' "$beside"
    printf '100644 blob %s\tmemory.jsonl\n' "$blob"; } | git mktree)
  if [ -n "$parent" ] && [ "$tree" = "$(git rev-parse "$parent^{tree}")" ]; then
    exit 0
  fi
  commit=$(git commit-tree "$tree" ${parent:+-p "$parent"} -m "Memory of $(git rev-parse --short HEAD)")
  if problem=$(git push -q origin "$commit:refs/heads/$MEMORY_BRANCH" 2>&1); then
    if [ "$after" != "$before" ]; then
      echo "The archive and the quarantine are kept on the branch $MEMORY_BRANCH; the folder of this run is removed." >&2
    fi
    exit 0
  fi
  if [ "$(git ls-remote -q origin "refs/heads/$MEMORY_BRANCH")" != "$there" ]; then
    echo "Another job pushed to $MEMORY_BRANCH first: its records are imported, and the push is repeated." >&2
  fi
done
echo "$problem" >&2
echo "The memory was not saved: $MEMORY_BRANCH cannot be pushed. It is protected, or others push all the time." >&2
exit 1
