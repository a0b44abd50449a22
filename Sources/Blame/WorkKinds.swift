import CulpritStallRecord

/// What a thread does that computes, told from the functions that the application's own code has called.
///
/// The outermost of these that is known decides: a decoder allocates memory and reads text, and is a decoder all the same.
enum WorkKinds {
  /// What the thread of `frames`, outermost first, does.
  static func work(_ frames: [WeightedStack.Frame]) -> Work {
    let own =
      frames.lastIndex(where: \.isApplication) ?? frames.lastIndex { $0.owner == .dependency }
      ?? frames.lastIndex(where: \.isWrittenEntryPoint)
    let callees = frames[(own.map { $0 + 1 } ?? 0)...]
    if Deallocation.isGoingOn(frames.lazy.map(\.resolved)) { return .kind(.deallocation) }
    // A call of the kernel's that runs is at work there.
    if let kind = frames.last.flatMap({ self.kind(of: $0.resolved) }), kind == .fileAccess || kind == .sockets {
      return .kind(kind)
    }
    for frame in callees {
      if let kind = kind(of: frame.resolved) { return .kind(kind) }
    }
    if let package = callees.lazy.compactMap({ CodeOwner.package(of: $0.resolved) }).first { return .package(package) }
    // What the compiler has put into a function is that function's own code.
    let called = callees.first { !$0.resolved.isInlined && $0.resolved.kind == .function && $0.resolved.rawName != nil }
    return called.map { .library($0.resolved.displayName) } ?? .ownCode
  }

  /// The kind of work that `frame` is known to do; `nil` where that is nothing known.
  static func kind(of frame: ResolvedFrame) -> Work.Kind? {
    guard let symbol = frame.rawName else { return nil }
    if symbol.hasPrefix("$s") || symbol.hasPrefix("$S") {
      return swiftKind(symbol, of: frame.swiftModule)
    }
    if symbol.hasPrefix("_Z") { return first(cxx) { symbol.hasPart($0) } }
    let name = symbol.hasPrefix("__GI_") ? symbol.dropFirst(5) : symbol[...]
    // The C library has several names for one function: "__libc_pwrite64", "__close_nocancel".
    var stem = name.drop { $0 == "_" }.prefix { $0 != "." && $0 != "@" }
    if stem.hasPrefix("libc_") { stem = stem.dropFirst(5) }
    if stem.hasSuffix("_nocancel") { stem = stem.dropLast(9) }
    if let kind = exact[stem] { return kind }
    return first(prefixes) { stem.hasPrefix($0) }
  }

  /// What a saved stall has of a name is what stands in the symbol table, and no more.
  private static func swiftKind(_ symbol: String, of module: String?) -> Work.Kind? {
    guard let module, SystemNames.swiftModules.contains(module) else { return nil }
    if module == "_StringProcessing" || module == "_RegexParser" { return .regularExpressions }
    return first(swift) { $0.hasPrefix("$s") ? symbol.hasPrefix($0) : symbol.hasPart($0) }
  }

  private static func first(_ table: [(Work.Kind, [String])], _ matches: (String) -> Bool) -> Work.Kind? {
    table.first { $0.1.contains(where: matches) }?.0
  }

  /// Parts of mangled names of the toolchain's Swift modules, and beginnings, which have the types of the standard library that are
  /// one or two letters there (docs/ABI/Mangling.rst of Swift's). The first line that matches decides.
  private static let swift: [(Work.Kind, [String])] = [
    (
      .fileAccess,
      [
        "14contentsOfFile", "17readBytesFromFile", "16readDataFromFile", "11writeToFile", "10FileHandle",
        "11FileManager",
        "4DataV10contentsOf",
      ]
    ),
    (.json, ["JSON"]), (.regularExpressions, ["RegularExpression", "Regex"]),
    (
      .codable,
      ["Encoder", "Decoder", "Encodable", "Decodable", "EncodingContainer", "DecodingContainer", "PropertyList"]
    ),
    (.sorting, ["4sort", "6sorted", "_insertionSort", "_stableSortImpl", "_mergeRuns"]),
    (.formatting, ["Formatter", "FormatStyle", "ISO8601", "DateFormat"]), (.decimals, ["7DecimalV"]),
    (.compression, ["compress"]), (.reflection, ["6Mirror", "4dump", "_print_unlocked", "_adHocPrint"]),
    (
      .text,
      [
        "$sSS", "$sSs", "$sSJ", "$sSy", "11_StringGuts", "13_StringObject", "7UnicodeO", "8NSString",
        "StringInterpolation",
        "SSACE", "SSE", "6StringV",
      ]
    ),
    (.collections, ["$sSD", "$sSh", "7_Native", "5__Raw", "6HasherV", "7__Cocoa"]),
    (.copying, ["12_ArrayBuffer", "22_ContiguousArrayBuffer", "13_copyContents", "4DataV"]),
  ]

  /// Parts of mangled C++ names.
  private static let cxx: [(Work.Kind, [String])] = [
    (.json, ["json", "JSON"]),
    (.regularExpressions, ["11basic_regex", "regex", "3re2", "N5boost9re_detail"]),
    (.sorting, ["__introsort", "4sort", "11stable_sort", "__merge_sort", "__insertion_sort", "__unguarded_linear"]),
    (
      .text,
      ["12basic_string", "19basic_ostringstream", "SsC", "NSs", "18basic_stringstream", "13basic_ostream", "6format"]
    ),
    (.collections, ["8_Rb_tree", "10_Hashtable", "13unordered_map", "3map", "5deque"]),
    (.allocation, ["Znwm", "Znam", "9allocator"]),
    (.deallocation, ["ZdlPv", "ZdaPv"]),
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

  /// Beginnings of C names, without underscores.
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

extension String {
  /// Whether `part` is somewhere in it, byte by byte: symbols have no characters that are written in several ways, and comparing
  /// characters takes a hundred times as long.
  func hasPart(_ part: String) -> Bool {
    var (text, part) = (self, part)
    return text.withUTF8 { text in
      part.withUTF8 { part in
        guard let first = part.first else { return true }
        guard text.count >= part.count else { return false }
        // SAFETY: both buffers are used inside their closures only, and the last place leaves room for the whole part.
        for place in 0...(text.count - part.count) where text[place] == first {
          if (1..<part.count).allSatisfy({ text[place + $0] == part[$0] }) { return true }
        }
        return false
      }
    }
  }
}
