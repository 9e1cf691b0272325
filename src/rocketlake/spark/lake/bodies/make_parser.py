"""The parser that the options ask for.

Owns        body format -> parser, the error for a missing package.
Must not know   how parsers work.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.parsed import BodyParser
from rocketlake.spark.lake.options import LakeOptions

__all__ = ["make_parser"]


def make_parser(options: LakeOptions) -> BodyParser | None:
    """None for raw bodies."""
    try:
        if options.body_format == "avro":
            from rocketlake.spark.lake.bodies.avro import AvroBodies

            return AvroBodies(options.avro_schema)
        if options.body_format == "protobuf":
            from rocketlake.spark.lake.bodies.protobuf import ProtobufBodies

            return ProtobufBodies(options.protobuf_descriptor, options.protobuf_message)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"bodyFormat = {options.body_format} needs the package '{error.name}'",
            hint="pip install 'rocketlake[lake]'",
        ) from error
    if options.body_format == "debezium":
        from rocketlake.spark.lake.bodies.debezium import DebeziumBodies

        return DebeziumBodies(options.body_schema)
    if options.body_format == "json" and options.body_schema:
        from rocketlake.spark.lake.bodies.json_declared import DeclaredJson

        return DeclaredJson(options.body_schema)
    if options.body_format == "json":
        from rocketlake.spark.lake.bodies.json_inferred import InferredJson

        return InferredJson()
    return None
