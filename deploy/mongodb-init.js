// Run once by `mongosh` in compose.yaml, and without effect when it is repeated: makes the replica
// set of one member, and the user of Keyrun, who may read and write its database and nothing else.
const { readFileSync } = require("node:fs");

const read = (name) => readFileSync(`/run/secrets/${name}`, "utf8").trim();
const waitMs = 500;
const triesMax = 120;

const connection = new Mongo("mongodb://mongodb:27017/?directConnection=true");
const admin = connection.getDB("admin");
admin.auth("root", read("mongodb-root-password"));

try {
  admin.runCommand({
    replSetInitiate: { _id: "keyrun", members: [{ _id: 0, host: "mongodb:27017" }] },
  });
} catch (thrown) {
  if (thrown.codeName !== "AlreadyInitialized") throw thrown;
}
for (let tries = 0; !admin.hello().isWritablePrimary; tries += 1) {
  if (tries === triesMax) throw new Error("MongoDB has no primary after a minute: see its log.");
  sleep(waitMs);
}

const keyrun = connection.getDB("keyrun");
const user = { pwd: read("mongodb-keyrun-password"), roles: [{ role: "readWrite", db: "keyrun" }] };
if (keyrun.getUser("keyrun") === null) keyrun.createUser({ user: "keyrun", ...user });
else keyrun.updateUser("keyrun", user);
print("MongoDB is ready for Keyrun.");
