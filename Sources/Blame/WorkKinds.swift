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
  private enum Pattern {
    case outermost(String)
    case type(String)
    case typeBeginning(String)
    case typeEnding(String)
    case name(String)
    case nameBeginning(String)
    case label(String)
    case member(String, String)
    case labelled(String, String)

    /// Parses `String/` (the outermost type), `Mirror`, `JSON*`, `*Coder` (any type), `.sort`, `.sort*` (the name),
    /// `Data.append` (both), `(contentsOf:` (the labels) or `init(from:` (name and labels). `~` stands for a space.
    init(_ text: String) {
      let text = String(text.map { $0 == "~" ? " " : $0 })
      let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
      let stem = String(text.dropLast())
      if let open = text.firstIndex(of: "(") {
        let (name, label) = (String(text[..<open]), String(text[open...].dropFirst()))
        self = name.isEmpty ? .label(label) : .labelled(name, label)
      } else if text.hasSuffix("/") {
        self = .outermost(stem)
      } else if text.hasPrefix("*") {
        self = .typeEnding(String(text.dropFirst()))
      } else if parts.count == 1 {
        self = text.hasSuffix("*") ? .typeBeginning(stem) : .type(text)
      } else if parts[0].isEmpty {
        self = text.hasSuffix("*") ? .nameBeginning(String(stem.dropFirst())) : .name(parts[1])
      } else {
        self = .member(parts[0], parts[1])
      }
    }

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

  private static func patterns(_ lines: [(Work.Kind, String)]) -> [(Work.Kind, [Pattern])] {
    lines.map { ($0.0, wordList($0.1).map(Pattern.init)) }
  }

  private static func swiftKind(_ frame: ResolvedFrame) -> Work.Kind? {
    guard let module = frame.swiftModule, SystemNames.swiftModules.contains(module) else { return nil }
    if module == "_RegexParser" { return .regularExpressions }
    guard let path = FunctionPath(frame) else { return nil }
    if module == "_StringProcessing" { return matching.contains { $0.matches(path) } ? .regularExpressions : .text }
    return first(swift) { $0.matches(path) }
  }

  /// Patterns of `_StringProcessing`, whose other functions search and split text.
  private static let matching = wordList(
    "Regex* AnyRegex* DSLTree* Processor Executor MEProgram Program Compiler Matcher"
  ).map(Pattern.init)

  /// Functions of the toolchain's Swift modules. The first match decides.
  private static let swift = patterns([
    (
      .fileAccess,
      """
      (contentsOfFile: init(contentsOf: .readBytesFromFile* .readDataFromFile* .writeToFile* FileHandle *FileManager
      _FileManagerImpl
      """
    ),
    (.json, "JSON* NSJSON*"),
    (.regularExpressions, "Regex* NSRegularExpression*"),
    (
      .codable,
      """
      *Encoder *Decoder *EncodingContainer *DecodingContainer PropertyList* Plist* (base64Encoded: .base64* Base64
      encode(to: init(from:
      """
    ),
    (.sorting, ".sort .sorted .insertionSort* .stableSortImpl* .mergeRuns* .mergeTopRuns* .finalizeRuns*"),
    (.formatting, "*Formatter *FormatStyle ISO8601* DateFormat* .formatted"),
    (.decimals, "Decimal NSDecimalNumber"),
    (.compression, ".compress* .decompress*"),
    (.reflection, "Mirror .dump .print_unlocked* .debugPrint_unlocked* .adHocPrint*"),
    (
      .text,
      """
      String/ Substring/ Character/ Unicode/ StringProtocol/ NSString/ NSMutableString/ _StringGuts/ _StringObject/
      *StringInterpolation
      """
    ),
    (.collections, "Dictionary/ Set/ Native* RawDictionary* RawSet* Hasher Cocoa* _HashTable"),
    (
      .copying,
      """
      _ArrayBuffer _ContiguousArrayBuffer .copyContents* .copyBytes* Data.append Data.replaceSubrange Data.subscript
      *_DataStorage
      """
    ),
  ])

  private static let cxx = patterns([
    (.json, "json basic_json* Json rapidjson simdjson json_abi*"),
    (.regularExpressions, "basic_regex .regex_* re2 re_detail* __detail._Executor _Executor"),
    (
      .sorting,
      """
      .sort .stable_sort .partial_sort .introsort* .merge_sort* .insertion_sort* .unguarded_linear*
      .final_insertion_sort*
      """
    ),
    (
      .text,
      "basic_string string basic_ostringstream basic_stringstream basic_ostream basic_istream std.format std.to_string"
    ),
    (.collections, "_Rb_tree _Hashtable unordered_map unordered_set map set multimap deque _Map_base"),
    (.allocation, ".allocate .M_allocate* .operator~new*"),
    (
      .deallocation,
      ".deallocate .Destroy* allocator_traits.destroy __new_allocator.destroy .operator~delete*"
    ),
  ])

  private static let exact: [Substring: Work.Kind] = valuesByWord([
    (
      .allocation,
      """
      malloc calloc realloc posix_memalign aligned_alloc memalign int_malloc int_realloc sysmalloc swift_allocObject
      swift_slowAlloc swift_allocBox swift_task_alloc brk sbrk mmap mmap64 mremap madvise
      """
    ),
    (.deallocation, "malloc_consolidate free cfree int_free swift_slowDealloc swift_deallocObject systrim"),
    (.sorting, "qsort qsort_r msort_with_tmp bsearch"),
    (.regularExpressions, "regexec regcomp re_search_internal"),
    (.compression, "inflate deflate compress uncompress"),
    (.copying, "memcpy memmove memset swift_arrayInitWithCopy"),
    (
      .casting,
      """
      swift_dynamicCast swift_dynamicCastClass swift_conformsToProtocol swift_conformsToProtocolCommon
      swift_getTypeByMangledName swift_getTypeByMangledNameInContext swift_getAssociatedConformanceWitness
      """
    ),
    (.exceptions, "cxa_throw Unwind_RaiseException cxa_begin_catch"),
    (.locking, "pthread_mutex_lock pthread_mutex_unlock pthread_spin_lock pthread_rwlock_rdlock pthread_rwlock_unlock"),
    (.yielding, "sched_yield"),
    (.loading, "dlopen dlsym dlclose dl_iterate_phdr"),
    (
      .fileAccess,
      """
      read pread64 pread readv write pwrite64 pwrite writev open open64 openat openat64 close fsync fdatasync stat
      stat64 fstat fstat64 lstat lstat64 fstatat64 fstatat statx access getdents64 readdir readdir64 opendir unlink
      rename mkdir ftruncate ftruncate64 lseek64 fread fwrite fgets sync_file_range copy_file_range sendfile
      posix_fallocate fopen fopen64 readlink
      """
    ),
    (.sockets, "recv recvfrom recvmsg send sendto sendmsg accept4 connect"),
    (
      .text,
      """
      snprintf sprintf vsnprintf vsprintf printf_buffer strlen strcmp strncmp strstr strchr strtol strtod sscanf
      strdup strcoll strcasecmp strtok_r memchr
      """
    ),
  ])

  private static let prefixes: [(Work.Kind, [String])] = [
    (.regularExpressions, wordList("pcre uregex swift_uregex")),
    (.compression, wordList("inflate deflate ZSTD_ lzma_ BZ2_ LZ4_ Brotli")),
    (.cryptography, wordList("EVP_ SHA1 SHA256 SHA512 AES_ CCryptoBoringSSL RSA_ EC_ BN_ ED25519")),
    (.text, wordList("ucol_ unorm utext_ swift_ucol_ CFString vfprintf vfscanf printf_fp")),
    (.json, wordList("cJSON yyjson json_")),
    (.collections, wordList("CFDictionary CFArray CFSet")),
    (.copying, wordList("memcpy memmove memset")),
    (.text, wordList("strlen strcmp strchr strstr memchr")),
  ]
}
