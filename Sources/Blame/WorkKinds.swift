import CulpritStallRecord

/// Determines the kind of a computation from the functions called by the application's code.
///
/// The outermost known function decides: a decoder that allocates memory and reads text is still a decoder.
final class WorkKinds {
  private var known: [FunctionIdentity: Work.Kind?] = [:]

  func work(_ frames: [WeightedStack.Frame], deinitializersCompute: Bool = false) -> Work {
    let own =
      frames.lastIndex(where: \.isApplication) ?? frames.lastIndex { $0.owner == .dependency }
      ?? frames.lastIndex(where: \.isWrittenEntryPoint)
    let callees = frames[(own.map { $0 + 1 } ?? 0)...]
    let isFreeing = Deallocation.isDeallocating(frames.lazy.map(\.resolved))
    if isFreeing, !(deinitializersCompute && Deallocation.isInDeinitializer(frames)) { return .kind(.deallocation) }
    if let kind = frames.last.flatMap(kind), kind == .fileAccess || kind == .sockets {
      return .kind(kind)
    }
    for frame in callees {
      guard let kind = kind(frame) else { continue }
      // A text search that calls functions for regular expressions matches a pattern.
      let isMatching = kind == .text && callees.contains { self.kind($0) == .regularExpressions }
      return .kind(isMatching ? .regularExpressions : kind)
    }
    if let package = callees.lazy.compactMap({ CodeOwner.package(of: $0.resolved) }).first { return .package(package) }
    let called = callees.first { !$0.resolved.isInlined && $0.resolved.kind == .function && $0.resolved.rawName != nil }
    return called.map { .library($0.resolved.displayName) } ?? .ownCode
  }

  private func kind(_ frame: WeightedStack.Frame) -> Work.Kind? {
    if let known = known[frame.identity] { return known }
    let found = Self.kind(of: frame.resolved)
    known[frame.identity] = .some(found)
    return found
  }

  static func kind(of frame: ResolvedFrame) -> Work.Kind? {
    guard let symbol = frame.rawName else { return nil }
    if symbol.hasPrefix("$s") || symbol.hasPrefix("$S") { return swiftKind(frame) }
    if symbol.hasPrefix("_Z") { return FunctionPath(frame).flatMap { path in first(cxx) { $0.matches(path) } } }
    let name = symbol.hasPrefix("__GI_") ? symbol.dropFirst(5) : symbol[...]
    // The C library has several names for one function: "__libc_pwrite64", "__close_nocancel".
    var stem = name.drop { $0 == "_" }.prefix { $0 != "." && $0 != "@" }
    if stem.hasPrefix("libc_") { stem = stem.dropFirst(5) }
    if stem.hasSuffix("_nocancel") { stem = stem.dropLast(9) }
    if let kind = exact[stem] { return kind }
    return first(prefixes) { stem.hasPrefix($0) }
  }

  private static func first<Pattern>(_ table: [(Work.Kind, [Pattern])], _ matches: (Pattern) -> Bool) -> Work.Kind? {
    table.first { $0.1.contains(where: matches) }?.0
  }

  /// A condition on a function's path.
  private enum Pattern: ExpressibleByStringLiteral {
    case outermost(String)
    case type(String)
    case typeBeginning(String)
    case typeEnding(String)
    case name(String)
    case nameBeginning(String)
    case label(String)
    case member(String, String)
    case labelled(String, String)

    init(stringLiteral text: String) { self = .type(text) }

    func matches(_ path: FunctionPath) -> Bool {
      switch self {
      case .outermost(let name): path.types.first == name
      case .type(let name): path.types.contains(name)
      case .typeBeginning(let text): path.types.contains { $0.drop { $0 == "_" }.hasPrefix(text) }
      case .typeEnding(let text): path.types.contains { $0.hasSuffix(text) }
      case .name(let name): path.name == name
      case .nameBeginning(let text): path.name.drop { $0 == "_" }.hasPrefix(text)
      case .label(let label): path.labels.hasPrefix(label)
      case .member(let type, let name): path.name == name && path.types.contains(type)
      case .labelled(let name, let label): path.name == name && path.labels.hasPrefix(label)
      }
    }
  }

  private static func swiftKind(_ frame: ResolvedFrame) -> Work.Kind? {
    guard let module = frame.swiftModule, SystemNames.swiftModules.contains(module) else { return nil }
    if module == "_RegexParser" { return .regularExpressions }
    guard let path = FunctionPath(frame) else { return nil }
    if module == "_StringProcessing" { return first(matching) { $0.matches(path) } ?? .text }
    return first(swift) { $0.matches(path) }
  }

  /// Patterns of `_StringProcessing`, whose other functions search and split text.
  private static let matching: [(Work.Kind, [Pattern])] = [
    (
      .regularExpressions,
      [
        .typeBeginning("Regex"), .typeBeginning("AnyRegex"), .typeBeginning("DSLTree"), "Processor", "Executor",
        "MEProgram", "Program", "Compiler", "Matcher",
      ]
    )
  ]

  /// Functions of the toolchain's Swift modules. The first match decides.
  private static let swift: [(Work.Kind, [Pattern])] = [
    (
      .fileAccess,
      [
        .label("contentsOfFile:"), .labelled("init", "contentsOf:"), .nameBeginning("readBytesFromFile"),
        .nameBeginning("readDataFromFile"), .nameBeginning("writeToFile"), "FileHandle", .typeEnding("FileManager"),
        "_FileManagerImpl",
      ]
    ),
    (.json, [.typeBeginning("JSON"), .typeBeginning("NSJSON")]),
    (.regularExpressions, [.typeBeginning("Regex"), .typeBeginning("NSRegularExpression")]),
    (
      .codable,
      [
        .typeEnding("Encoder"), .typeEnding("Decoder"), .typeEnding("EncodingContainer"),
        .typeEnding("DecodingContainer"),
        .typeBeginning("PropertyList"), .typeBeginning("Plist"), .label("base64Encoded:"), .nameBeginning("base64"),
        "Base64",
        .labelled("encode", "to:"), .labelled("init", "from:"),
      ]
    ),
    (
      .sorting,
      [
        .name("sort"), .name("sorted"), .nameBeginning("insertionSort"), .nameBeginning("stableSortImpl"),
        .nameBeginning("mergeRuns"), .nameBeginning("mergeTopRuns"), .nameBeginning("finalizeRuns"),
      ]
    ),
    (
      .formatting,
      [
        .typeEnding("Formatter"), .typeEnding("FormatStyle"), .typeBeginning("ISO8601"), .typeBeginning("DateFormat"),
        .name("formatted"),
      ]
    ),
    (.decimals, ["Decimal", "NSDecimalNumber"]),
    (.compression, [.nameBeginning("compress"), .nameBeginning("decompress")]),
    (
      .reflection,
      [
        "Mirror", .name("dump"), .nameBeginning("print_unlocked"), .nameBeginning("debugPrint_unlocked"),
        .nameBeginning("adHocPrint"),
      ]
    ),
    (
      .text,
      [
        .outermost("String"), .outermost("Substring"), .outermost("Character"), .outermost("Unicode"),
        .outermost("StringProtocol"), .outermost("NSString"), .outermost("NSMutableString"), .outermost("_StringGuts"),
        .outermost("_StringObject"), .typeEnding("StringInterpolation"),
      ]
    ),
    (
      .collections,
      [
        .outermost("Dictionary"), .outermost("Set"), .typeBeginning("Native"), .typeBeginning("RawDictionary"),
        .typeBeginning("RawSet"), "Hasher", .typeBeginning("Cocoa"), "_HashTable",
      ]
    ),
    (
      .copying,
      [
        "_ArrayBuffer", "_ContiguousArrayBuffer", .nameBeginning("copyContents"), .nameBeginning("copyBytes"),
        .member("Data", "append"), .member("Data", "replaceSubrange"), .member("Data", "subscript"),
        .typeEnding("_DataStorage"),
      ]
    ),
  ]

  private static let cxx: [(Work.Kind, [Pattern])] = [
    (
      .json, [.type("json"), .typeBeginning("basic_json"), "Json", "rapidjson", "simdjson", .typeBeginning("json_abi")]
    ),
    (
      .regularExpressions,
      [
        "basic_regex", .nameBeginning("regex_"), "re2", .typeBeginning("re_detail"), .member("__detail", "_Executor"),
        "_Executor",
      ]
    ),
    (
      .sorting,
      [
        .name("sort"), .name("stable_sort"), .name("partial_sort"), .nameBeginning("introsort"),
        .nameBeginning("merge_sort"), .nameBeginning("insertion_sort"), .nameBeginning("unguarded_linear"),
        .nameBeginning("final_insertion_sort"),
      ]
    ),
    (
      .text,
      [
        "basic_string", .type("string"), "basic_ostringstream", "basic_stringstream", "basic_ostream", "basic_istream",
        .member("std", "format"), .member("std", "to_string"),
      ]
    ),
    (
      .collections,
      ["_Rb_tree", "_Hashtable", "unordered_map", "unordered_set", "map", "set", "multimap", "deque", "_Map_base"]
    ),
    (.allocation, [.nameBeginning("operator new"), .name("allocate"), .nameBeginning("M_allocate")]),
    (
      .deallocation,
      [
        .nameBeginning("operator delete"), .name("deallocate"), .nameBeginning("Destroy"),
        .member("allocator_traits", "destroy"), .member("__new_allocator", "destroy"),
      ]
    ),
  ]

  private static let exact: [Substring: Work.Kind] = [
    "malloc": .allocation, "calloc": .allocation, "realloc": .allocation, "posix_memalign": .allocation,
    "aligned_alloc": .allocation, "memalign": .allocation,
    "int_malloc": .allocation, "int_realloc": .allocation, "sysmalloc": .allocation,
    "malloc_consolidate": .deallocation, "swift_allocObject": .allocation, "swift_slowAlloc": .allocation,
    "swift_allocBox": .allocation, "swift_task_alloc": .allocation, "brk": .allocation, "sbrk": .allocation,
    "mmap": .allocation, "mmap64": .allocation, "mremap": .allocation, "madvise": .allocation,
    "free": .deallocation, "cfree": .deallocation, "int_free": .deallocation,
    "swift_slowDealloc": .deallocation, "swift_deallocObject": .deallocation, "systrim": .deallocation,
    "qsort": .sorting, "qsort_r": .sorting, "msort_with_tmp": .sorting, "bsearch": .sorting,
    "regexec": .regularExpressions, "regcomp": .regularExpressions, "re_search_internal": .regularExpressions,
    "inflate": .compression, "deflate": .compression, "compress": .compression, "uncompress": .compression,
    "memcpy": .copying, "memmove": .copying, "memset": .copying, "swift_arrayInitWithCopy": .copying,
    "swift_dynamicCast": .casting, "swift_dynamicCastClass": .casting, "swift_conformsToProtocol": .casting,
    "swift_conformsToProtocolCommon": .casting, "swift_getTypeByMangledName": .casting,
    "swift_getTypeByMangledNameInContext": .casting, "swift_getAssociatedConformanceWitness": .casting,
    "cxa_throw": .exceptions, "Unwind_RaiseException": .exceptions, "cxa_begin_catch": .exceptions,
    "pthread_mutex_lock": .locking, "pthread_mutex_unlock": .locking, "pthread_spin_lock": .locking,
    "sched_yield": .yielding, "pthread_rwlock_rdlock": .locking, "pthread_rwlock_unlock": .locking,
    "dlopen": .loading, "dlsym": .loading, "dlclose": .loading, "dl_iterate_phdr": .loading,
    "read": .fileAccess, "pread64": .fileAccess, "pread": .fileAccess, "readv": .fileAccess, "write": .fileAccess,
    "pwrite64": .fileAccess, "pwrite": .fileAccess, "writev": .fileAccess, "open": .fileAccess, "open64": .fileAccess,
    "openat": .fileAccess, "openat64": .fileAccess, "close": .fileAccess, "fsync": .fileAccess,
    "fdatasync": .fileAccess,
    "stat": .fileAccess, "stat64": .fileAccess, "fstat": .fileAccess, "fstat64": .fileAccess, "lstat": .fileAccess,
    "lstat64": .fileAccess, "fstatat64": .fileAccess, "fstatat": .fileAccess, "statx": .fileAccess,
    "access": .fileAccess,
    "getdents64": .fileAccess, "readdir": .fileAccess, "readdir64": .fileAccess, "opendir": .fileAccess,
    "unlink": .fileAccess, "rename": .fileAccess, "mkdir": .fileAccess, "ftruncate": .fileAccess,
    "ftruncate64": .fileAccess, "lseek64": .fileAccess, "fread": .fileAccess, "fwrite": .fileAccess,
    "fgets": .fileAccess,
    "sync_file_range": .fileAccess, "copy_file_range": .fileAccess, "sendfile": .fileAccess,
    "posix_fallocate": .fileAccess, "fopen": .fileAccess, "fopen64": .fileAccess, "readlink": .fileAccess,
    "recv": .sockets, "recvfrom": .sockets, "recvmsg": .sockets, "send": .sockets, "sendto": .sockets,
    "sendmsg": .sockets, "accept4": .sockets, "connect": .sockets,
    "snprintf": .text, "sprintf": .text, "vsnprintf": .text, "vsprintf": .text, "printf_buffer": .text, "strlen": .text,
    "strcmp": .text, "strncmp": .text, "strstr": .text, "strchr": .text, "strtol": .text, "strtod": .text,
    "sscanf": .text, "strdup": .text, "strcoll": .text, "strcasecmp": .text, "strtok_r": .text, "memchr": .text,
  ]

  private static let prefixes: [(Work.Kind, [String])] = [
    (.regularExpressions, ["pcre", "uregex", "swift_uregex"]),
    (.compression, ["inflate", "deflate", "ZSTD_", "lzma_", "BZ2_", "LZ4_", "Brotli"]),
    (.cryptography, ["EVP_", "SHA1", "SHA256", "SHA512", "AES_", "CCryptoBoringSSL", "RSA_", "EC_", "BN_", "ED25519"]),
    (.text, ["ucol_", "unorm", "utext_", "swift_ucol_", "CFString", "vfprintf", "vfscanf", "printf_fp"]),
    (.json, ["cJSON", "yyjson", "json_"]),
    (.collections, ["CFDictionary", "CFArray", "CFSet"]),
    (.copying, ["memcpy", "memmove", "memset"]),
    (.text, ["strlen", "strcmp", "strchr", "strstr", "memchr"]),
  ]
}
