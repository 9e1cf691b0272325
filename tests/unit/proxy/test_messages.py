from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from rocketlake.proxy.v2 import enums, pool
from rocketlake.proxy.v2 import messages as v2

definition_pb2 = pytest.importorskip(
    "rocketmq.grpc_protocol.definition_pb2", reason="needs the package rocketmq-python-client"
)
service_pb2 = pytest.importorskip("rocketmq.grpc_protocol.service_pb2")


def of_apache() -> list[Any]:
    return [
        descriptor_pb2.FileDescriptorProto.FromString(each.DESCRIPTOR.serialized_pb)
        for each in (definition_pb2, service_pb2)
    ]


def by_name(parts: Any) -> dict[str, str]:
    """One of a descriptor's lists; the text of an entry shows each field that is set."""
    found = {}
    for part in parts:
        copy = type(part)()
        copy.CopyFrom(part)
        for inner in (copy, *getattr(copy, "nested_type", ())):
            for field in getattr(inner, "field", ()):
                field.ClearField("json_name")
        found[part.name] = str(copy)
    return found


def test_messages_are_those_of_apaches_client() -> None:
    theirs = [message for file in of_apache() for message in file.message_type]
    assert by_name(pool.file_descriptor().message_type) == by_name(theirs)


def test_enums_are_those_of_apaches_client() -> None:
    theirs = [enum for file in of_apache() for enum in file.enum_type]
    assert by_name(pool.file_descriptor().enum_type) == by_name(theirs)
    assert len(enums.__all__) == len(theirs) + 1  # that of OffsetOption is inside a message


def test_methods_are_those_of_apaches_client() -> None:
    def methods(file: Any) -> list[tuple[Any, ...]]:
        (service,) = file.service
        return [
            (service.name, each.name, each.input_type, each.output_type, each.client_streaming, each.server_streaming)
            for each in service.method
        ]

    assert methods(pool.file_descriptor()) == methods(of_apache()[1])


def test_both_live_in_one_process() -> None:
    ours = v2.SendMessageRequest(
        messages=[
            v2.Message(
                topic=v2.Resource(name="orders"),
                user_properties={"a": "b"},
                system_properties=v2.SystemProperties(
                    message_type=v2.MessageType.DELAY,
                    delivery_timestamp=v2.Timestamp(seconds=5),
                    keys=["k"],
                    priority=0,
                ),
                body=b"x",
            )
        ]
    )
    theirs = service_pb2.SendMessageRequest.FromString(ours.SerializeToString())
    assert theirs.messages[0].system_properties.delivery_timestamp.seconds == 5
    assert theirs.messages[0].system_properties.HasField("priority")
    assert theirs.messages[0].user_properties == {"a": "b"}
    assert v2.SendMessageRequest.FromString(theirs.SerializeToString(deterministic=True)) == ours
    assert type(ours) is not type(theirs)


def test_methods_by_path() -> None:
    receive = v2.METHODS["/apache.rocketmq.v2.MessagingService/ReceiveMessage"]
    assert receive == v2.Method("ReceiveMessage", v2.ReceiveMessageRequest, v2.ReceiveMessageResponse, False, True)
    telemetry = v2.METHODS["/apache.rocketmq.v2.MessagingService/Telemetry"]
    assert telemetry == v2.Method("Telemetry", v2.TelemetryCommand, v2.TelemetryCommand, True, True)


def test_a_message_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no message Letter"):
        _ = v2.Letter
