# Sourced by the npm scripts in the clone's root, where sh or bash runs them: puts the Node that Keyrun
# runs on first on the PATH. That is the first that starts of those that npm installed. The newer one,
# in packages/node, needs the library libatomic, which small systems lack; both need glibc. Else it is
# the one that the PATH has, and the script ends here if that is too old.
for folder in "$PWD/packages/node" "$PWD"; do
  for node in "$folder"/node_modules/node-linux-*/bin/node; do
    if "$node" --version >/dev/null 2>&1; then
      PATH=${node%/node}:$PATH
      return
    fi
  done
done
node bin/check-node.mjs || exit
