/**
 * The comments of the proto files for everything in the REST API, each on one line, by full name.
 * Generated descriptors have no comments. A test compares every line with the proto file and fails
 * if the document mentions something that has no line here.
 */
export const protoWords: Readonly<Record<string, string>> = {
  "keyrun.v1.RunService":
    "Runs a team's apps. The caller sends an API key in `authorization`. Every answer to a valid key has the team's rate limit in its metadata, and the key's if it has one of its own.",
  "keyrun.v1.RunService.RunApp":
    "Runs an app once with a text, JSON or both, and answers with the app's output. A request with a valid key takes one from its team's limit, whatever the answer is. A request that the limit refuses takes nothing.",
  "keyrun.v1.RunService.StreamApp":
    "Runs an app once with a text, JSON or both, and streams the app's output as it comes. The first message is `started`, then `delta` follows any number of times, then `output` at most once, and the status ends the stream. It counts against the team's limit like one `RunApp`. A stream ends with an error soon after its key is revoked or its team loses the app.",
  "keyrun.v1.RunAppRequest": "The app to run, and its input.",
  "keyrun.v1.RunAppRequest.app_id": 'Required. The app\'s id. Example: "echo".',
  "keyrun.v1.RunAppRequest.text":
    'Optional. The app\'s input as text. It may be empty. At least one of `text` and `input` is required. Example: "hello".',
  "keyrun.v1.RunAppRequest.input":
    'Optional. The app\'s input as a JSON object, at most 32 deep, with at most 20,000 values. A number that a double can\'t hold exactly must be sent as a string. Example: {"city": "Oslo"}.',
  "keyrun.v1.RunAppResponse": "The result of the run.",
  "keyrun.v1.RunAppResponse.run_id":
    'Output only. The run\'s id, new for every run. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.RunAppResponse.app_id": 'Output only. The id of the app that ran. Example: "echo".',
  "keyrun.v1.RunAppResponse.text":
    'Output only. The app\'s output as text. It may be empty. It is absent if the app gave none. Example: "hello".',
  "keyrun.v1.RunAppResponse.output":
    'Output only. The app\'s output as JSON: any value. It is absent if the app gave none. Example: {"celsius": 21}.',
  "keyrun.v1.StreamAppRequest": "The app to run, and its input.",
  "keyrun.v1.StreamAppRequest.app_id": 'Required. The app\'s id. Example: "echo".',
  "keyrun.v1.StreamAppRequest.text":
    'Optional. The app\'s input as text. It may be empty. At least one of `text` and `input` is required. Example: "hello".',
  "keyrun.v1.StreamAppRequest.input":
    'Optional. The app\'s input as a JSON object, at most 32 deep, with at most 20,000 values. A number that a double can\'t hold exactly must be sent as a string. Example: {"city": "Oslo"}.',
  "keyrun.v1.StreamAppResponse": "One message of a stream.",
  "keyrun.v1.StreamAppResponse.started": "The app has begun to answer. It is always the first message.",
  "keyrun.v1.StreamAppResponse.delta": "A piece of the app's output.",
  "keyrun.v1.StreamAppResponse.output":
    "The app's output as JSON: any value. If the app gives one, it is the last message.",
  "keyrun.v1.StreamStarted": "The begin of a stream.",
  "keyrun.v1.StreamStarted.run_id":
    'Output only. The run\'s id, new for every run. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.StreamStarted.app_id": 'Output only. The id of the app that runs. Example: "echo".',
  "keyrun.v1.StreamDelta": "A piece of the output. All pieces in their order are the whole output.",
  "keyrun.v1.Run": "A run in the background: what is known of it, and its end once it has one.",
  "keyrun.v1.Run.run_id": 'Output only. The run\'s id. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.Run.app_id": 'Output only. The id of the app that runs. Example: "echo".',
  "keyrun.v1.Run.state": "Output only. Whether the run goes on, or how it has ended.",
  "keyrun.v1.Run.text":
    'Output only. The app\'s output as text. It is there only if the run has succeeded, the app gave one and it is still kept, and never in lists. It may be empty. Example: "hello".',
  "keyrun.v1.Run.output":
    'Output only. The app\'s output as JSON, where it gave one. It is there when `text` would be. Example: {"celsius": 21}.',
  "keyrun.v1.Run.text_dropped":
    "Output only. True if the run has succeeded, but its output is no longer kept: the outputs of a team's runs take at most 256 MiB, and the oldest go first.",
  "keyrun.v1.Run.error": "Output only. Why the run has failed or was cancelled; unset otherwise.",
  "keyrun.v1.Run.key_id": 'Output only. The id of the key that started it. Example: "7hq2dkx0c9rt".',
  "keyrun.v1.Run.create_time": "Output only. When the run was taken on.",
  "keyrun.v1.Run.end_time": "Output only. When it ended; unset while it runs.",
  "keyrun.v1.Run.expire_time": "Output only. Until when it can be read; unset while it runs.",
  "keyrun.v1.RunError": "Why a run has failed, as a caller who waits for it would be told.",
  "keyrun.v1.RunError.code": 'Output only. The reason for programs. Example: "app_failed".',
  "keyrun.v1.RunError.message": "Output only. A sentence for people, which may change.",
  "keyrun.v1.RunError.status": "Output only. The status that HTTP would have. Example: 502.",
  "keyrun.v1.RunService.StartRun":
    "Starts a run in the background, and answers before the app does: the run then has an end that can be read with `GetRun`, whatever becomes of the caller. Over REST it is `RunApp` with the header `Prefer: respond-async`.",
  "keyrun.v1.RunService.GetRun":
    "Returns a run in the background, whatever its state is. With `wait` it answers at the end of the run, or after that time.",
  "keyrun.v1.RunService.ListRuns":
    "Lists the team's runs in the background that are kept, newest first, without their outputs. A key that is restricted to apps sees the runs of those.",
  "keyrun.v1.RunService.CancelRun":
    "Ends a run in the background, and answers once it is sure to be cancelled. Of a run that has ended it answers how it ended. It may be repeated.",
  "keyrun.v1.StartRunRequest": "The app to run, and its input.",
  "keyrun.v1.StartRunRequest.app_id": 'Required. The app\'s id. Example: "report".',
  "keyrun.v1.StartRunRequest.text":
    'Optional. The app\'s input as text. It may be empty. At least one of `text` and `input` is required. Example: "hello".',
  "keyrun.v1.StartRunRequest.input":
    'Optional. The app\'s input as a JSON object, at most 32 deep, with at most 20,000 values. A number that a double can\'t hold exactly must be sent as a string. Example: {"city": "Oslo"}.',
  "keyrun.v1.StartRunRequest.wait":
    "Optional. How long to wait for the end of the run before it is answered, at most 50 s: a longer time counts as that.",
  "keyrun.v1.StartRunResponse": "The run, as it was when it was answered.",
  "keyrun.v1.StartRunResponse.run": "Output only. The run.",
  "keyrun.v1.GetRunRequest": "The run to return.",
  "keyrun.v1.GetRunRequest.run_id": 'Required. The run\'s id. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.GetRunRequest.wait":
    'Optional. How long to wait for the end of the run, at most 50 s: a longer time counts as that. Example: "30s".',
  "keyrun.v1.GetRunResponse": "The run, as it was when it was answered.",
  "keyrun.v1.GetRunResponse.run": "Output only. The run.",
  "keyrun.v1.ListRunsRequest": "The page of the list to return.",
  "keyrun.v1.ListRunsRequest.page_size":
    "Optional. How many runs to return at most. 0 means 50; more than 100 counts as 100; negative is refused.",
  "keyrun.v1.ListRunsRequest.page_token": "Optional. The `next_page_token` of the page before.",
  "keyrun.v1.ListRunsResponse": "One page of the team's runs.",
  "keyrun.v1.ListRunsResponse.runs":
    "Output only. The runs, newest first, without their outputs. A page may have fewer than `page_size`, also if it is not the last.",
  "keyrun.v1.ListRunsResponse.next_page_token": "Output only. The token of the next page; empty on the last.",
  "keyrun.v1.CancelRunRequest": "The run to cancel.",
  "keyrun.v1.CancelRunRequest.run_id": 'Required. The run\'s id. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.CancelRunResponse": "The run after it.",
  "keyrun.v1.CancelRunResponse.run": "Output only. The run, which has ended.",
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
