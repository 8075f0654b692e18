/**
 * The comments of the proto files for everything in the REST API, each on one line, by full name.
 * Generated descriptors have no comments. A test compares every line with the proto file and fails
 * if the document mentions something that has no line here.
 */
export const protoWords: Readonly<Record<string, string>> = {
  "keyrun.v1.RunService":
    "Runs a team's apps. The caller sends an API key in `authorization`. Every answer to a valid key has the team's rate limit in its metadata, and the key's if it has one of its own.",
  "keyrun.v1.RunService.RunApp":
    "Runs an app once with a text and answers with the app's output. A request with a valid key takes one from its team's limit, whatever the answer is. A request that the limit refuses takes nothing.",
  "keyrun.v1.RunService.StreamApp":
    "Runs an app once with a text and streams the app's output as it comes. The first message is `started`, then `delta` follows any number of times, and the status ends the stream. It counts against the team's limit like one `RunApp`. A stream ends with an error soon after its key is revoked or its team loses the app.",
  "keyrun.v1.RunAppRequest": "The app to run, and its input.",
  "keyrun.v1.RunAppRequest.app_id": 'Required. The app\'s id. Example: "echo".',
  "keyrun.v1.RunAppRequest.text":
    'Required. The app\'s input. It may be empty, but it must be present. Example: "hello".',
  "keyrun.v1.RunAppResponse": "The result of the run.",
  "keyrun.v1.RunAppResponse.run_id":
    'Output only. The run\'s id, new for every run. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.RunAppResponse.app_id": 'Output only. The id of the app that ran. Example: "echo".',
  "keyrun.v1.RunAppResponse.text": 'Output only. The app\'s output. It may be empty. Example: "hello".',
  "keyrun.v1.StreamAppRequest": "The app to run, and its input.",
  "keyrun.v1.StreamAppRequest.app_id": 'Required. The app\'s id. Example: "echo".',
  "keyrun.v1.StreamAppRequest.text":
    'Required. The app\'s input. It may be empty, but it must be present. Example: "hello".',
  "keyrun.v1.StreamAppResponse": "One message of a stream.",
  "keyrun.v1.StreamAppResponse.started": "The app has begun to answer. It is always the first message.",
  "keyrun.v1.StreamAppResponse.delta": "A piece of the app's output.",
  "keyrun.v1.StreamStarted": "The begin of a stream.",
  "keyrun.v1.StreamStarted.run_id":
    'Output only. The run\'s id, new for every run. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.StreamStarted.app_id": 'Output only. The id of the app that runs. Example: "echo".',
  "keyrun.v1.StreamDelta": "A piece of the output. All pieces in their order are the whole output.",
  "keyrun.v1.KeyService": "Manages and verifies the API keys of teams.",
  "keyrun.v1.KeyService.RevokeLeakedKey":
    "Revokes a key at once and for ever, with the key itself as the proof. For those who find a key where it should not be. It needs no credential on the public listener. A repeated call is no error. If there is no key with this value, the error is NOT_FOUND with the reason KEY_NOT_FOUND.",
  "keyrun.v1.RevokeLeakedKeyRequest": "The key that was found.",
  "keyrun.v1.RevokeLeakedKeyRequest.value": "Required. The key's full value.",
  "keyrun.v1.RevokeLeakedKeyResponse": "What was revoked.",
  "keyrun.v1.RevokeLeakedKeyResponse.redacted_value":
    'Output only. The first 8 characters of the full value, an ellipsis and the last 4. Example: "svc_7k3f…x9Qz".',
  "keyrun.v1.RevokeLeakedKeyResponse.revoke_time":
    "Output only. When the key was revoked: a repeated call answers with the time of the first revocation.",
  "keyrun.v1.StreamDelta.text":
    'Output only. The text of the piece: at most 64 KiB of UTF-8, cut between code points. Example: "hello ".',
};
