/// Compiler-generated Swift functions without mangled names. They belong to no source function, because the compiler
/// numbers or merges them.
///
///     objectdestroy.5Tm         destroying a closure's context
struct SwiftGlue {
  let short: String

  private static let words: [(head: String, words: String)] = [
    ("objectdestroy", "destroying a closure's context"), ("block_copy_helper", "copying a block"),
    ("block_destroy_helper", "destroying a block"), ("keypath_get", "key path getter"),
    ("keypath_set", "key path setter"), ("keypath_arguments", "key path arguments"),
    ("__swift_closure_destructor", "destroying a closure's context"),
    ("__swift_destroy_boxed_opaque_existential", "destroying an existential"),
    ("__swift_project_boxed_opaque_existential", "finding the value of an existential"),
    ("__swift_mutable_project_boxed_opaque_existential", "finding the value of an existential"),
    ("__swift_allocate_boxed_opaque_existential", "making room for an existential"),
    ("__swift_assign_boxed_opaque_existential", "copying an existential"),
    ("__swift_instantiateConcreteTypeFromMangledName", "type metadata"),
    ("__swift_instantiateGenericMetadata", "type metadata"),
    ("__swift_allocate_value_buffer", "making room for a value"),
    ("__swift_deallocate_value_buffer", "giving back the room of a value"),
    ("__swift_project_value_buffer", "finding a value"), ("__swift_memcpy", "copying a value"),
    ("__swift_get_extra_inhabitant_index", "reading the case of a value"),
    ("__swift_store_extra_inhabitant_index", "setting the case of a value"),
    ("get_enum_tag_for_layout_string", "reading the case of a value"),
    ("get_type_metadata", "type metadata"), ("get_witness_table", "conformance of a type"),
    ("__swift_noop_void_return", "__swift_noop_void_return"),
  ]

  init?(_ rawName: String) {
    guard let found = Self.words.first(where: { rawName.hasPrefix($0.head) }) else { return nil }
    // "objectdestroy", "objectdestroy.5", "keypath_getTm", "get_type_metadata 3Si_tm": a number or a mark can follow.
    let rest = rawName.dropFirst(found.head.count)
    guard rest.allSatisfy({ !$0.isLowercase || $0 == "m" }) || rest.first == " " || found.head.hasPrefix("__swift_")
    else {
      return nil
    }
    short = found.words
  }
}

/// The linker's suffix for a function with several versions: `poll@GLIBC_2.2.5`.
enum VersionSuffix {
  /// Returns `name` without its version. The stub "poll@plt" keeps its suffix.
  static func removed(from name: String) -> String {
    guard let sign = name.utf8.firstIndex(of: UInt8(ascii: "@")), sign != name.startIndex else { return name }
    var version = name[sign...]
    let isStub = version.hasSuffix("@plt")
    if isStub { version = version.dropLast(4) }
    return name[..<sign] + (isStub ? "@plt" : "")
  }
}
