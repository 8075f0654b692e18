/**
 * The comments of the proto files for everything in the REST API, each on one line, by full name.
 * Generated descriptors have no comments. A test compares every line with the proto file and fails
 * if the document mentions something that has no line here.
 */
export const protoWords: Readonly<Record<string, string>> = {
  "keyrun.v1.RunService":
    "Runs a team's apps. The caller sends an API key in `authorization`. Every answer to a valid key has the team's rate limit in its metadata.",
  "keyrun.v1.RunService.RunApp":
    "Runs an app once with a text and answers with the app's output. A request with a valid key takes one from its team's limit, whatever the answer is. A request that the limit refuses takes nothing.",
  "keyrun.v1.RunAppRequest": "The app to run, and its input.",
  "keyrun.v1.RunAppRequest.app_id": 'Required. The app\'s id. Example: "echo".',
  "keyrun.v1.RunAppRequest.text":
    'Required. The app\'s input. It may be empty, but it must be present. Example: "hello".',
  "keyrun.v1.RunAppResponse": "The result of the run.",
  "keyrun.v1.RunAppResponse.run_id":
    'Output only. The run\'s id, new for every run. Example: "run_1fv0j56qgf3zjgkfrwasendm".',
  "keyrun.v1.RunAppResponse.app_id": 'Output only. The id of the app that ran. Example: "echo".',
  "keyrun.v1.RunAppResponse.text": 'Output only. The app\'s output. It may be empty. Example: "hello".',
};
