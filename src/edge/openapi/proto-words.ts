/**
 * The comments of the proto files on what REST reaches, each on one line, by full name: generated descriptors come
 * without them. A test holds every line to the proto's comment, and demands one for whatever the document mentions.
 */
export const protoWords: Readonly<Record<string, string>> = {
  "keyrun.v1.RunService":
    "Runs a team's apps. The caller sends an API key in `authorization`; every answer carries the team's rate limit in its metadata.",
  "keyrun.v1.RunService.RunApp":
    "Runs an app once with a text and answers with its output. A request with a valid key spends one from its team's limit, whatever the answer.",
  "keyrun.v1.RunAppRequest": "What to run.",
  "keyrun.v1.RunAppRequest.app_id": 'Required. The app\'s id. Example: "echo".',
  "keyrun.v1.RunAppRequest.text":
    'Required. The app\'s input; it may be empty, and must be there. Example: "hello".',
  "keyrun.v1.RunAppResponse": "What the run gave.",
  "keyrun.v1.RunAppResponse.run_id":
    'Output only. The run\'s id, new for every run. Example: "run_2c9k4m1p7r0s5t8v3w6x".',
  "keyrun.v1.RunAppResponse.app_id": "Output only. The app that ran.",
  "keyrun.v1.RunAppResponse.text": "Output only. The app's output; it may be empty.",
};
