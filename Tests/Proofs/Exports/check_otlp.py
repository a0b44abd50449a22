"""Reads profiles of OpenTelemetry with its own Python package. tools/prove exports passes files, each followed by the expected
nanoseconds."""
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData


def messages(message):
    """Yields `message` and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if hasattr(value, "__len__") else [value]:
            yield from messages(part)


def check(path, wanted):
    with open(path, "rb") as file:
        content = file.read()
    data = ProfilesData.FromString(content)
    # Requests to a collector have an equal wire format.
    request = ExportProfilesServiceRequest.FromString(content)
    for message in [*messages(data), *messages(request)]:
        if len(UnknownFieldSet(message)):
            sys.exit(f"otlp: {path}: {message.DESCRIPTOR.full_name} has unknown fields")
    dictionary = data.dictionary
    for field in dictionary.DESCRIPTOR.fields:
        table = getattr(dictionary, field.name)
        if not len(table) or table[0] != type(table[0])():
            sys.exit(f"otlp: {path}: the first entry of {field.name} is not the empty one")
    found = 0
    for profile in (p for r in data.resource_profiles for s in r.scope_profiles for p in s.profiles):
        for sample in profile.samples:
            if len(sample.values) != len(sample.timestamps_unix_nano):
                sys.exit(f"otlp: {path}: a sample has {len(sample.values)} values and {len(sample.timestamps_unix_nano)} times")
            end = profile.time_unix_nano + max(1, profile.duration_nano)
            if any(not profile.time_unix_nano <= time < end for time in sample.timestamps_unix_nano):
                sys.exit(f"otlp: {path}: the time of a sample is not within its profile's")
            for place in dictionary.stack_table[sample.stack_index].location_indices:
                location = dictionary.location_table[place]
                mapping = dictionary.mapping_table[location.mapping_index]
                if location.mapping_index and not mapping.memory_start <= location.address < mapping.memory_limit:
                    sys.exit(f"otlp: {path}: an address is not within its mapping")
                for line in location.lines:
                    dictionary.string_table[dictionary.function_table[line.function_index].name_strindex]
            found += sum(sample.values)
    if found != wanted:
        sys.exit(f"otlp: {path} has {found} ns, not {wanted}")
    print(f"otlp         opentelemetry-proto: {path.rsplit('/', 1)[-1]} {found} ns")


for path, wanted in zip(sys.argv[1::2], sys.argv[2::2]):
    check(path, int(wanted))
