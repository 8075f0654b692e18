# Sourced by the npm scripts in the clone's root, where sh or bash runs them: puts the Node that Keyrun
# runs on first on the PATH. That is the one that npm installed, which needs glibc. Where it does not
# start it is the one that the PATH has, and the script ends here if that is too old.
for node in "$PWD"/node_modules/node-linux-*/bin/node; do
  if "$node" --version >/dev/null 2>&1; then
    PATH=${node%/node}:$PATH
    return
  fi
done
node bin/check-node.mjs || exit
