"""The life of a key, told to Keyrun by Debian's python3-grpcio: a gRPC stack that shares nothing with the server's.

Reads one JSON object from standard input: target, service_token, descriptors (the path of a FileDescriptorSet).
Prints what was answered as one JSON object.
"""

import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory


def main():
    asked = json.load(sys.stdin)
    files = descriptor_pb2.FileDescriptorSet()
    with open(asked["descriptors"], "rb") as descriptors:
        files.ParseFromString(descriptors.read())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    with grpc.insecure_channel(asked["target"]) as channel:
        told = tell(caller(channel, pool), asked["service_token"])
        print(json.dumps({**told, "unknown": unknown(channel)}))


def tell(call, token):
    created = call("KeyService", "CreateKey", token, {"teamId": "demo", "label": "python"})
    value, key_id = created["value"], created["key"]["id"]
    run = {"appId": "echo", "text": "hello from Python"}
    return {
        "run": call("RunService", "RunApp", value, run),
        "verified": call("KeyService", "VerifyKey", token, {"value": value, "cost": 0}),
        "revoked": call("KeyService", "RevokeKey", token, {"teamId": "demo", "keyId": key_id}),
        "refused": call("RunService", "RunApp", value, run),
        "withoutKey": call("RunService", "RunApp", None, run),
        "keyForToken": call("KeyService", "ListKeys", value, {"teamId": "demo"}),
    }


def unknown(channel):
    """Calls methods that nobody serves, with and without a stream, and compressed."""
    plain = grpc.Compression.NoCompression
    calls = [(channel.unary_unary, plain), (channel.unary_unary, grpc.Compression.Gzip), (channel.unary_stream, plain)]
    told = []
    for make, compression in calls:
        method = make("/keyrun.v1.RunService/Walk")
        try:
            answer = method(b"x" * 100, timeout=10, compression=compression)
            told.append(list(answer))
        except grpc.RpcError as error:
            told.append({"code": error.code().name, "words": error.details()})
    return told


def caller(channel, pool):
    def message_class(descriptor):
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(pool).GetPrototype(descriptor)

    def call(service, method, credential, request):
        described = pool.FindServiceByName(f"keyrun.v1.{service}").FindMethodByName(method)
        answer_class = message_class(described.output_type)
        unary = channel.unary_unary(
            f"/keyrun.v1.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_class.FromString,
        )
        message = json_format.ParseDict(request, message_class(described.input_type)())
        metadata = [] if credential is None else [("authorization", f"Bearer {credential}")]
        try:
            answer, running = unary.with_call(message, metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            trailers = {name: text for name, text in error.trailing_metadata() if isinstance(text, str)}
            return {"code": error.code().name, "words": error.details(), "metadata": trailers}
        headers = dict(running.initial_metadata())
        told = json_format.MessageToDict(answer)
        if "ratelimit-remaining" in headers:
            told["remaining"] = headers["ratelimit-remaining"]
        return told

    return call


main()
