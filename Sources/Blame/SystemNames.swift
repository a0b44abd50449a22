/// Names of toolchain and system functions in any module. Used only without debug information.
enum SystemNames {
  static let swiftModules = words(
    """
    Swift _Concurrency _StringProcessing _RegexParser RegexBuilder Synchronization Observation Distributed Dispatch
    Foundation FoundationEssentials FoundationInternationalization FoundationNetworking FoundationXML CoreFoundation
    Glibc Musl Cxx CxxStdlib XCTest Testing Culprit CulpritReports CulpritStallRecord CulpritSymbols CulpritBlame
    CulpritBlackBox CulpritHummingbird CulpritLogging CulpritMetrics CulpritNIO CulpritServiceLifecycle CulpritTesting
    CulpritTracing CulpritVapor __C SwiftShims SwiftOnoneSupport _Builtin_float _Differentiation _FoundationCollections
    _Volatile Runtime
    """
  )

  static func contains(_ name: String) -> Bool {
    if prefixes.contains(where: name.hasPrefix) { return true }
    // Outlined and specialized functions have a suffix (".cold").
    let stem = name.prefix { $0 != "." }
    if let known = word(stem, behind: "swift_") { return isRuntime(known) || isUnicode(known) }
    if let known = word(stem, behind: "dispatch_") { return dispatch.contains(known.prefix { $0 != "_" }) }
    return isCoreFoundation(stem) || isUnicode(stem)
  }

  /// Prefixes of names that C and C++ reserve for the system (C11, 7.1.3; Itanium C++ ABI, 5.1.4.2: St is std), of
  /// toolchain namespaces, and of sanitizers.
  private static let prefixes = wordList(
    """
    _swift_ __swift_ _dispatch_ __dispatch_ ___dispatch_ _os_ _voucher_ _Block_ _Unwind_ __cxa_ __gxx_ __libc_ $ss $sS
    _ZSt _ZNSt _ZNKSt _ZN9__gnu_cxx _ZNK9__gnu_cxx _ZN10__cxxabiv1 _ZNK10__cxxabiv1 _ZN5swift _ZNK5swift _ZN7__swift
    _ZNK7__swift __tsan_ _ZN6__tsan __asan_ _ZN6__asan _ZN11__sanitizer __sanitizer_ __interceptor_ ___interceptor_
    """
  )

  private static func word(_ name: Substring, behind prefix: String) -> Substring? {
    name.hasPrefix(prefix) ? name.dropFirst(prefix.count) : nil
  }

  private static func isRuntime(_ name: Substring) -> Bool {
    let first = name.prefix { $0 != "_" }
    return first.contains(where: \.isUppercase) || runtime.contains(first) || name == "get_time"
      || name == "get_clock_res"
  }

  /// Whether `name` belongs to ICU, in C, in its C++ namespace, or in Foundation's copies (`swift_u…`).
  private static func isUnicode(_ name: Substring) -> Bool {
    if name.hasPrefix("_ZN6icu_") || name.hasPrefix("_ZNK6icu_") { return true }
    guard name.first == "u", unicode.contains(name.prefix { $0 != "_" }), let end = name.lastIndex(of: "_") else {
      return false
    }
    let version = name[name.index(after: end)...]
    return name.startIndex != name.base.startIndex || (version.count == 2 && version.allSatisfy(\.isNumber))
  }

  private static func isCoreFoundation(_ name: Substring) -> Bool {
    let name = name.drop { $0 == "_" }
    guard name.hasPrefix("CF") else { return false }
    if name.hasPrefix("CFRUNLOOP_") { return true }
    return coreFoundation.contains { name.dropFirst(2).hasPrefix($0) }
  }

  private static let unicode = words(
    """
    u ubidi ubrk ucal ucasemap ucnv ucol ucurr udat udatpg udtitvfmt uenum ufieldpositer ufmt uidna uiter uldn uloc ulocdata
    umsg unorm unorm2 unum unumf unumsys uplrules uprv ureldatefmt ures uregex urbtok uscript usearch uset uspoof usprep
    utext utf8 utmscale utrans utrie2 utrie3 ucptrie ucpmap uhash uarrsort uameasfmt uatmufmt uatimezone ualoc uplrule
    udatintv uaprv uadatpg uacal ulocimp uresb uvector
    """
  )

  private static let coreFoundation = wordList(
    """
    Allocator Array Attributed Bag Basic Big Binary Bit Boolean Bundle Burst Calendar Character Data Date Dictionary
    Error KeyedArchiver Locale MachPort MessagePort Notification Null Number PlugIn Preferences Property ReadStream
    Regular RunLoop Runtime Set Socket Storage Stream String TimeZone Tree URI URL UUID Uni WriteStream Get Retain
    Release Equal Hash Copy Absolute QSort Sort
    """
  )

  private static let runtime = words(
    """
    bincompat concurrency continuation cvw demangle distributed executor func generic job nonatomic once release retain sleep
    stdlib task time
    """
  )

  private static let dispatch = words(
    """
    activate after apply assert async atfork barrier benchmark block data debug debugv get group io main once queue read
    release resume retain semaphore set source suspend sync time walltime workloop write
    """
  )
}

/// Splits `text` at white space. A literal of many words would be compiled into code that adds them one by one.
func words(_ text: String) -> Set<Substring> { Set(text.split(whereSeparator: \.isWhitespace)) }

/// Splits `text` at white space.
func wordList(_ text: String) -> [String] { text.split(whereSeparator: \.isWhitespace).map(String.init) }

extension Set<Substring> {
  func contains(_ word: String) -> Bool { contains(word[...]) }
}

/// Returns the value of each word in the texts.
func valuesByWord<Value>(_ lines: [(value: Value, text: String)]) -> [Substring: Value] {
  lines.reduce(into: [:]) { values, line in
    for word in words(line.text) { values[word] = line.value }
  }
}
