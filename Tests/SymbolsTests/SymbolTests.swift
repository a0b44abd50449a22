import CulpritStallRecord
import Foundation
import Programs
import TestSupport
import Testing

@testable import CulpritSymbols

@Suite struct SymbolIndexTests {
  private func symbol(_ start: UInt64, _ end: UInt64, _ name: UInt32, _ rank: SymbolIndex.Symbol.Rank = .globalFunction)
    -> SymbolIndex.Symbol
  { SymbolIndex.Symbol(start: start, end: end, rank: rank, name: name) }

  private func name(_ index: SymbolIndex, _ address: UInt64) -> UInt32? { index.symbol(at: FileAddress(address))?.name }

  /// Starts are sorted by parts of their bits, so the test covers close, distant and equal starts.
  @Test func sortsSymbolsByStartAndRank() {
    var random = SystemRandomNumberGenerator()
    var starts = (0..<3000).map { UInt64.random(in: 1...UInt64(1) << UInt64($0 % 63), using: &random) }
    starts += [UInt64.max - 1, 1]
    let ranks: [SymbolIndex.Symbol.Rank] = [.globalFunction, .label, .localFunction]
    let symbols = starts.enumerated().map { symbol($1, $1, UInt32($0), ranks[$0 % 3]) }
    var found: [SymbolIndex.Symbol] = []
    SymbolIndex(symbols, limit: { _ in .max }).forEach { found.append($0) }
    #expect(found.map(\.start) == Set(starts).sorted())
    for (start, group) in Dictionary(grouping: symbols, by: \.start) where group.count > 1 {
      let best = group.min { $0.isBetter(than: $1) }
      #expect(found.first { $0.start == start }?.name == best?.name)
    }
  }

  @Test func keepsPublicNameBesideReserved() {
    let reserved: Set<UInt32> = [1, 2, 5]
    let index = SymbolIndex(
      [
        symbol(0x10, 0x20, 1), symbol(0x10, 0x20, 2), symbol(0x10, 0x20, 3, .weakFunction),
        symbol(0x10, 0x20, 4, .weakFunction), symbol(0x30, 0x40, 5), symbol(0x30, 0x40, 6, .localFunction),
        symbol(0x50, 0x60, 7), symbol(0x50, 0x60, 8, .weakFunction),
      ],
      limit: { _ in 0x100 },
      isReserved: reserved.contains
    )
    #expect(name(index, 0x10) == 1 && index.publicName(at: 0x10) == 3)
    #expect(index.publicName(at: 0x30) == nil && index.publicName(at: 0x50) == nil && index.publicName(at: 0x11) == nil)
  }

  @Test func keepsAliases() {
    let index = SymbolIndex(
      [symbol(0x10, 0x20, 1), symbol(0x10, 0x20, 2), symbol(0x10, 0x20, 3, .localFunction), symbol(0x30, 0x40, 4)],
      limit: { _ in 0x100 }
    )
    #expect(index.otherNames(at: 0x10) == [2])
    #expect(index.otherNames(at: 0x30).isEmpty)
  }

  @Test func prefersBetterName() {
    let index = SymbolIndex(
      [
        symbol(0x10, 0x20, 1, .label), symbol(0x10, 0x20, 2, .localFunction), symbol(0x10, 0x20, 3, .globalFunction),
        symbol(0x10, 0x20, 4, .weakFunction), symbol(0x10, 0x10, 5, .globalFunction),
      ],
      limit: { _ in 0x100 }
    )
    #expect(name(index, 0x10) == 3)
  }

  @Test func emptyTableHasNoSymbols() {
    let index = SymbolIndex([], limit: { $0 })
    #expect(index.count == 0)
    #expect(name(index, 0) == nil)
  }
}

@Suite struct ReadableNameTests {
  /// Lines of a demangled name, its short form and its module.
  private static let demangled = """
    Shop.Catalog.rebuild(for: Swift.String, limit: Swift.Int) throws -> [Swift.String] | Catalog.rebuild(for:limit:) | Shop
    Shop.run() -> () | run() | Shop
    Shop.run() async throws -> () | run() | Shop
    static Shop.Catalog.make(_: Swift.Int) -> Shop.Catalog | Catalog.make(_:) | Shop
    Shop.Catalog.count.getter : Swift.Int | Catalog.count.getter | Shop
    Shop.Catalog.init(documents: Swift.Int) -> Shop.Catalog | Catalog.init(documents:) | Shop
    Shop.Catalog.__deallocating_deinit | Catalog.deinit | Shop
    closure #1 (Swift.Int) -> Swift.Bool in Shop.Catalog.search(word: Swift.String) -> Swift.Int | closure #1 in Catalog.search(word:) | Shop
    closure #2 () -> () in closure #1 () -> () in Shop.main() -> () | closure #2 in closure #1 in main() | Shop
    closure #1 () -> () in Shop | closure #1 in top-level code | Shop
    partial apply forwarder for closure #1 () -> () in Shop.run() -> () | closure #1 in run() | Shop
    (extension in Shop):Swift.Array.total() -> Swift.Int | Array.total() | Shop
    generic specialization <Swift.Int> of Swift.Array.append(__owned A) -> () | Array.append(_:) | Swift
    function signature specialization <Arg[1] = [Closure Propagated : $s4Shop3runyyF, Argument Types : []> of generic specialization <Swift.String.UTF8View, Swift.UInt64> of (extension in Swift):Swift.Sequence.reduce<A>(A1, (A1, A.Element) throws -> A1) throws -> A1 | Sequence.reduce(_:_:) | Swift
    merged Shop.Catalog.(hidden in _1234ABCD)(of: Swift.Int) -> () | Catalog.hidden(of:) | Shop
    Shop.Box<Swift.Int>.value.setter : Swift.Int | Box.value.setter | Shop
    (1) suspend resume partial function for Shop.Server.serve() async -> () | Server.serve() | Shop
    protocol witness for Shop.Codec.encode(Swift.Int) -> () in conformance Shop.JSON : Shop.Codec in Shop | JSON.encode(_:) | Shop
    protocol witness for Swift.CustomStringConvertible.description.getter : Swift.String in conformance Shop.Item : Swift.CustomStringConvertible in Shop | Item.description.getter | Shop
    variable initialization expression of Shop.Timer.(isOver in _1234ABCD) : Swift.Bool | initial value of Timer.isOver | Shop
    default argument 0 of Shop.run(times: Swift.Int) -> () | default of times in run(times:) | Shop
    Shop.apply(_: (Swift.Int) -> Swift.Int, to: [Swift.String : Swift.Int]) -> () | apply(_:to:) | Shop
    static Swift.Int.< infix(Swift.Int, Swift.Int) -> Swift.Bool | Int.<(_:_:) | Swift
    $defer #1 () -> () in Shop.planRoute(Swift.Int) throws -> Swift.Int | defer in planRoute(_:) | Shop
    relaxEdges #1 <A where A: Swift.Sequence>(A, depth: Swift.Int) -> Swift.Int in Shop.planRoute(Swift.Int) -> () | relaxEdges(_:depth:) in planRoute(_:) | Shop
    relaxEdges #1 (Swift.Int) -> Swift.Int in Shop | relaxEdges(_:) in top-level code | Shop
    closure #1 (Swift.Int) -> Order #1 in Shop.decodeOrders(until: Swift.UInt64) -> () in Shop.decodeOrders(until: Swift.UInt64) -> () | closure #1 in decodeOrders(until:) | Shop
    init(from: Swift.Decoder) throws -> Order #1 in Shop.decodeOrders(until: Swift.UInt64) -> () in Order #1 in Shop.decodeOrders(until: Swift.UInt64) -> () | Order.init(from:) in decodeOrders(until:) | Shop
    Key.init(from: Swift.Decoder) throws -> Key in Order #1 in Shop.decodeOrders(until: Swift.UInt64) -> () in Order #1 in Shop.decodeOrders(until: Swift.UInt64) -> () | Order.Key.init(from:) in decodeOrders(until:) | Shop
    protocol witness for Swift.Decodable.init(from: Swift.Decoder) throws -> A in conformance Order #1 in Shop.decodeOrders(until: Swift.UInt64) -> () : Swift.Decodable in Shop | Order.init(from:) in decodeOrders(until:) | Shop
    Shop.cache.unsafeMutableAddressor : [Swift.String : Swift.Int] | access to global cache | Shop
    static Shop.Catalog.shared.unsafeMutableAddressor : Shop.Catalog | access to Catalog.shared | Shop
    closure #1 () -> [Swift.Int] in variable initialization expression of Shop.cache : [Swift.Int] | closure #1 in initial value of global cache | Shop
    implicit closure #1 () throws -> Swift.Bool in Shop.run() -> () | run() | Shop
    implicit closure #1 () -> Swift.String in default argument 1 of Shop.check(_: Swift.Bool, _: () -> Swift.String) -> () | default of argument 2 in check(_:_:) | Shop
    Swift.== infix<A, B>((A, B), (A, B)) -> Swift.Bool | operator ==(_:_:) | Swift
    static Shop.Vector.<+> infix(Shop.Vector, Shop.Vector) -> Shop.Vector | Vector.<+>(_:_:) | Shop
    Shop.Cart.(_total in _1234ABCD).didset : Swift.Int | Cart._total.didSet | Shop
    Shop.Cart.total.willset : Swift.Int | Cart.total.willSet | Shop
    Shop.Cart.didset() -> () | Cart.didset() | Shop
    static Swift.SignedNumeric.- prefix(A) -> A | SignedNumeric.prefix -(_:) | Swift
    static Swift.Comparable....< infix(A, A) -> Swift.Range<A> | Comparable....<(_:_:) | Swift
    """

  @Test(arguments: Self.demangled.split(separator: "\n"))
  func swiftNames(line: Substring) throws {
    let fields = line.components(separatedBy: " | ")
    try #require(fields.count == 3)
    let name = SwiftName(demangled: fields[0])
    #expect(name.short == fields[1])
    #expect(name.module == fields[2])
  }

  @Test(arguments: [
    ("reabstraction thunk helper from @escaping @callee_guaranteed () -> () to X", "reabstraction thunk"),
    ("initializeWithCopy value witness for Swift.String", "copying a value"),
    ("destroy value witness for Shop.Order", "destroying a value"),
    ("outlined copy of Foundation.Data._Representation", "copying a value"),
    ("outlined init with take of Shop.Order?", "moving a value"),
    ("outlined consume of (@escaping @callee_guaranteed () -> ())?", "destroying a value"),
    ("type metadata accessor for Shop.Box<Swift.Int>", "type metadata of Box"),
    (
      "lazy protocol witness table accessor for type Shop.Order and conformance Shop.Order : Swift.Hashable in Shop",
      "conformance of Order to Hashable"
    ),
  ])
  func glueHasNoModule(full: String, short: String) {
    let name = SwiftName(demangled: full)
    #expect(name.short == short)
    #expect(name.module == nil && name.kind == .glue)
  }

  @Test(arguments: [
    ("Shop.run() -> ()", "Shop.run() -> ()"),
    ("generic specialization <Swift.Int> of merged Shop.run() -> ()", "Shop.run() -> ()"),
    ("(2) await resume partial function for Shop.run() -> ()", "Shop.run() -> ()"),
    (
      "implicit closure #2 () -> () in implicit closure #1 () -> () in static Shop.run() -> ()",
      "static Shop.run() -> ()"
    ),
    (
      "partial apply forwarder for implicit closure #1 () -> () in sort #1 () -> () in Shop.run() -> ()",
      "sort #1 () -> () in Shop.run() -> ()"
    ),
    ("closure #1 () -> () in Shop.run() -> ()", "closure #1 () -> () in Shop.run() -> ()"),
    (
      "implicit closure #1 () -> () in closure #1 () -> () in Shop.run() -> ()",
      "closure #1 () -> () in Shop.run() -> ()"
    ),
  ])
  func mapsVariantsToOneFunction(full: String, function: String) {
    #expect(SwiftName(demangled: full).function == function)
  }

  @Test func recognizesMergedFunctions() {
    let merged = demangle("$s4Shop3runyyFTm")
    #expect(merged.isMerged && merged.short == "run()" && merged.sourceFunction == "Shop.run() -> ()")
    #expect(!demangle("$s4Shop3runyyF").isMerged)
  }

  @Test func namesGlobalInitializers() {
    #expect(demangle("$s4Shop5cache_WZ").short == "initialization of global cache")
    #expect(demangle("$s4Shop5cache_WZ").swiftModule == "Shop")
    #expect(demangle("$s4Shop7CatalogC6shared_WZ").short == "initialization of Catalog.shared")
    #expect(demangle("$s4Shop5cache33_06E7F1D906492AE070936A9B58CBAE1CLL_WZ").short == "initialization of global cache")
  }

  @Test(arguments: [
    ("shop::Index::find(std::string const&, int) const", "shop::Index::find"),
    ("int shop::sum<int, std::vector<int> >(std::vector<int> const&)", "shop::sum"),
    ("shop::Index<int>::find(int)", "shop::Index::find"),
    ("shop::operator<(shop::A, shop::B)", "shop::operator<"),
    ("bool shop::operator< <int>(shop::Box<int>, shop::Box<int>)", "shop::operator<"),
    ("std::ostream& shop::operator<< <char>(std::ostream&, char)", "shop::operator<<"),
    ("shop::Box<int>::operator[](int) const", "shop::Box::operator[]"),
    ("shop::Box<int>::operator->() const", "shop::Box::operator->"),
    ("shop::Box<(a > b)>::operator()(int) const", "shop::Box::operator()"),
    ("shop::Box<int>::operator std::vector<int>() const", "shop::Box::operator std::vector"),
    ("shop::Index::operator new(unsigned long)", "shop::Index::operator new"),
    ("unsigned long const& std::max<unsigned long>(unsigned long const&, unsigned long const&)", "std::max"),
    ("vtable for shop::Index", "vtable for shop::Index"),
    ("non-virtual thunk to shop::Both::other()", "shop::Both::other"),
    ("shop::(anonymous namespace)::helper(int)", "shop::helper"),
    ("(anonymous namespace)::helper(int)", "helper"),
    (
      "shop::Index::find(int) const::{lambda(char)#1}::operator()(char) const::{lambda()#2}::operator()() const",
      "lambda #2 in lambda #1 in shop::Index::find"
    ),
    ("main::{lambda(int)#1}::_FUN(int)", "lambda #1 in main"),
    ("shop::run(int)::Local::step(int)", "Local::step in shop::run"),
    (
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*)",
      "std::basic_string::append"
    ),
    ("std::function<int (int)>::operator()(int) const", "std::function::operator()"),
    ("decltype (forward<int&>({parm#1})) shop::pass<int&>(int&)", "shop::pass"),
    ("int (*shop::choose<double>(double))(int)", "shop::choose"),
  ])
  func cxxNames(full: String, short: String) { #expect(CxxName(demangled: full).short == short) }

  @Test(arguments: [
    ("_RNvC6_123foo3bar", "123foo::bar"), ("_RNvNtCs1234_4shop5index4find", "shop::index::find"),
    ("_RNvMs_NtCs1234_4shop5indexNtB4_5Index4find", "<shop::index::Index>::find"),
    ("_RNCNvC4shop4main0", "shop::main::{closure#0}"), ("_RINvC4shop3maxlE", "shop::max"),
    ("_RNvXCs1234_4shopNtB2_4JsonNtB2_5Codec6encode", "<shop::Json as shop::Codec>::encode"),
    ("_Rnonsense", "_Rnonsense"),
    ("_RB_", "_RB_"), ("_RNvB_3abc", "_RNvB_3abc"),
  ])
  func rustNames(raw: String, short: String) { #expect(demangle(raw).short == short) }

  @Test(arguments: [
    ("str_to_mpn.part.0.constprop.0", "str_to_mpn"), ("main.cold", "main"),
    ("_ZN4shop5Index4findEi.isra.0", "shop::Index::find"),
    ("_ZN4shop5Index4findEi.llvm.1234567890", "shop::Index::find"), ("$s4Shop3runyyF.resume.0", "run()"),
    ("$s4Shop3runyyYaFTY0_", "run()"), ("$s4Shop3runyyYaFTQ1_", "run()"), ("handler.v2", "handler.v2"),
    ("poll@GLIBC_2.2.5", "poll"), ("memcpy@@GLIBC_2.14", "memcpy"), ("poll@GLIBC_2.2.5@plt", "poll@plt"),
    ("poll@plt", "poll@plt"), ("objectdestroy.5Tm", "destroying a closure's context"),
    ("objectdestroyer", "objectdestroyer"),
    (".hidden", ".hidden"), ("a.part", "a"), ("Shop.part.x", "Shop.part.x"),
    ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
    (
      "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
      "<Test + 'static as foo::Bar<Test>>::bar"
    ),
  ])
  func namesClonesAfterFunction(raw: String, short: String) {
    #expect(demangle(raw).short == short)
  }

  @Test func fullNameIdentifiesClone() {
    #expect(demangle("_ZN4shop5Index4findEi.isra.0").full == "shop::Index::find(int) [clone .isra.0]")
    #expect(demangle("main.cold").full == "main.cold")
  }

  @Test func demanglesByLanguage() {
    #expect(demangle("$sSS5countSivg").full == "Swift.String.count.getter : Swift.Int")
    #expect(demangle("_T04Shop3runyyF").short == "run()")
    // Documented as unknown: Swift before version 4, and D.
    for name in ["_TF4Shop3runFT_T_", "_D4shop3runFZv"] { #expect(demangle(name).full == name) }
    #expect(
      demangle("_ZN4shop5Index4findEi")
        == DemangledName(short: "shop::Index::find", full: "shop::Index::find(int)", swiftModule: nil)
    )
    #expect(demangle("poll").short == "poll")
    #expect(demangle("_Znonsense").short == "_Znonsense")
    #expect(demangle("$snonsense").short == "$snonsense")
    #expect(demangle("").short == "")
  }
}

@Suite(.ownThread) struct ElfImageTests {
  @Test func rejectsMissingAndNonELFFiles() {
    #expect(throws: ElfError.self) { try ElfImage(path: "/nonexistent/file") }
    #expect(throws: ElfError.self) { try ElfImage(path: "/etc/passwd") }
    #expect(throws: ElfError.self) { try ElfImage(path: "/tmp") }
    #expect(throws: ElfError.self) { try ElfImage(path: "/dev/null") }
    #expect(throws: ElfError.self) { try ElfImage(path: "/etc/passwd\0x") }
    // Opening the FIFO must not wait for a writer.
    let fifo = NSTemporaryDirectory() + "culprit-test-fifo-\(getpid())"
    mkfifo(fifo, 0o600)
    defer { unlink(fifo) }
    #expect(throws: ElfError.self) { try ElfImage(path: fifo) }
  }

  @Test func findsEverySwiftRuntimeSymbol() throws {
    let path = try #require(loadedPath(containing: "libswiftCore.so"))
    let symbols = SymbolTable(try ElfImage(path: path))
    let listed = try nm(path)
    try #require(listed.count > 1000)
    var names: [UInt64: Set<String>] = [:]
    for entry in listed { names[entry.start, default: []].insert(entry.name) }
    var missed = 0
    var misnamed: [String] = []
    for entry in listed {
      for address in [entry.start, entry.start + max(1, entry.size) - 1] {
        guard let symbol = symbols.symbol(at: FileAddress(address)), symbol.range.contains(address) else {
          missed += 1
          continue
        }
        // For nested functions, the inner function is found if nm lists its start.
        let start = symbol.range.start
        if names[start]?.contains(symbol.name.string) != true { misnamed.append(symbol.name.string) }
        if address == entry.start, start != entry.start { misnamed.append(entry.name) }
      }
    }
    #expect(misnamed.isEmpty)
    #expect(missed == 0, "of \(listed.count) symbols")
  }

  @Test func buildIDsMatchReadelf() throws {
    let path = try #require(loadedPath(containing: "libc.so.6"))
    let text = try ChildProcess("/usr/bin/readelf", ["-nW", path]).output
    let expected = text.split(separator: "\n").first { $0.contains("Build ID:") }?.split(separator: " ").last
    #expect(hexadecimal(try ElfImage(path: path).buildID) == expected.map(String.init))
  }

  /// Local symbols are stripped, but the unwind table still delimits functions.
  @Test func findsBoundsOfStrippedFunctions() throws {
    let path = try #require(loadedPath(containing: "libc.so.6"))
    let functions = FunctionStarts(try ElfImage(path: path))
    #expect(functions.starts.count > 1000)
    for start in functions.starts.prefix(500) {
      #expect(functions.start(at: FileAddress(start)) == FileAddress(start))
    }
    #expect(functions.start(at: FileAddress(0)) == nil)
  }

  @Test func takesFunctionStartFromStack() throws {
    let fixture = Fixture()
    try fixture.write(
      """
      static __attribute__((noinline, used)) int hidden(int value) { return value * 3; }
      int exported(int value) { return value * 5; }
      """,
      "stripped.c"
    )
    try fixture.run(
      "gcc -O1 -fno-asynchronous-unwind-tables -fno-unwind-tables -nostdlib -shared -fPIC -o stripped.so stripped.c"
    )
    let (hidden, exported) = try (
      fixture.address(of: "hidden", in: "stripped.so"), fixture.address(of: "exported", in: "stripped.so")
    )
    try fixture.run("strip stripped.so")
    let image = try ElfImage(path: fixture.path("stripped.so"))
    try #require(FunctionStarts(image).starts.isEmpty)
    let base: UInt64 = 0x10_0000
    let mapping = Module.Mapping(start: RuntimeAddress(base), end: RuntimeAddress(base * 2), fileOffset: 0)
    let module = Module(path: image.path, buildID: image.buildID, mappings: [mapping])
    func frame(_ address: FileAddress, begins start: FileAddress?) throws -> ResolvedFrame {
      let start = start.map { RuntimeAddress(base + $0.value) }
      let frame = StackFrame.programCounter(RuntimeAddress(base + address.value + 1), functionStart: start)
      return try #require(Symbolizer(modules: [module]).resolve(frame).last)
    }
    let found = try frame(hidden, begins: hidden)
    #expect(found.function == nil && found.missing == .noSymbolHere && found.start == hidden)
    #expect(try frame(hidden, begins: nil).start == nil)
    let named = try frame(exported, begins: FileAddress(exported.value + 1))
    #expect(named.function == "exported" && named.start == exported)
  }

  @Test func rejectsFileWithOtherBuildID() throws {
    let path = try #require(loadedPath(containing: "libc.so.6"))
    let buildID = try ElfImage(path: path).buildID
    let mapping = Module.Mapping(start: RuntimeAddress(0x1000_0000), end: RuntimeAddress(0x1100_0000), fileOffset: 0)
    func resolve(_ module: Module) throws -> ResolvedFrame {
      try #require(Symbolizer(modules: [module]).resolve(.programCounter(RuntimeAddress(0x1008_0000))).first)
    }
    let right = try resolve(Module(path: path, buildID: buildID, mappings: [mapping]))
    #expect(right.missing == nil || right.missing == .noSymbolHere)
    let wrong = try resolve(Module(path: path, buildID: [1, 2, 3], mappings: [mapping]))
    #expect(wrong.missing == .changedFile(expected: "010203", found: hexadecimal(buildID)))
    #expect(wrong.function == nil)
  }

  @Test func explainsEveryMissingName() throws {
    let mapping = Module.Mapping(start: RuntimeAddress(0x1000), end: RuntimeAddress(0x2000), fileOffset: 0)
    let symbolizer = Symbolizer(modules: [
      Module(path: "[vdso]", buildID: [], mappings: [mapping]),
      Module(
        path: "/nonexistent/gone",
        buildID: [],
        mappings: [Module.Mapping(start: RuntimeAddress(0x5000), end: RuntimeAddress(0x6000), fileOffset: 0)]
      ),
    ])
    #expect(symbolizer.resolve(.programCounter(RuntimeAddress(0x1800))).first?.missing == .noFile)
    #expect(symbolizer.resolve(.programCounter(RuntimeAddress(0x9000))).first?.missing == .notMapped)
    guard case .unreadableFile(let why) = symbolizer.resolve(.programCounter(RuntimeAddress(0x5800))).first?.missing
    else {
      Issue.record("no reason for a missing file")
      return
    }
    #expect(why == "cannot open /nonexistent/gone: No such file or directory")
  }

  @Test func namesOwnFunctionWithLine() throws {
    let executable = try #require(maps().map { String($0[5].drop { $0 == " " }) }.first { $0.hasSuffix(".xctest") })
    let stated = try Fixture().address(of: "$s12SymbolsTests14markedFunctionyyF", in: executable).value
    let base = try #require(maps().first { $0[5].contains(executable) && UInt64($0[2], radix: 16) == 0 })
    let start = try #require(UInt64(base[0].prefix { $0 != "-" }, radix: 16))
    let address = RuntimeAddress(start + stated)
    let module = try #require(modulesOfThisProcess().first { $0.fileOffset(of: address) != nil })
    let frame = try #require(Symbolizer(modules: [module]).resolve(.programCounter(address)).first)
    markedFunction()
    #expect(frame.function == "markedFunction()")
    #expect(frame.swiftModule == "SymbolsTests")
    #expect(frame.location?.file.hasSuffix("SymbolTests.swift") == true)
    #expect(frame.location?.line == markedLine)
  }
}

let markedLine = #line + 2
@inline(never)
func markedFunction() { markedCalls += 1 }
nonisolated(unsafe) private var markedCalls = 0

private func nm(_ path: String) throws -> [(start: UInt64, size: UInt64, name: String)] {
  try ChildProcess("/usr/bin/nm", ["--defined-only", "--print-size", path]).output.split(separator: "\n")
    .compactMap { line in
      let fields = line.split(separator: " ")
      guard fields.count == 4, "tTwWi".contains(fields[2]), let start = UInt64(fields[0], radix: 16),
        let size = UInt64(fields[1], radix: 16)
      else { return nil }
      return (start, size, String(fields[3]))
    }
}

private func maps() -> [[Substring]] {
  readFile("/proc/self/maps").split(separator: "\n")
    .map { $0.split(separator: " ", maxSplits: 5) }.filter { $0.count == 6 }
}

func loadedPath(containing name: String) -> String? {
  maps().map { String($0[5].drop { $0 == " " }) }.first { $0.hasSuffix(name) }
}

private func modulesOfThisProcess() -> [Module] {
  maps().filter { $0[1].contains("x") && $0[5].contains("/") }
    .compactMap { fields in
      let range = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
      let path = String(fields[5].drop { $0 == " " })
      guard range.count == 2, let offset = UInt64(fields[2], radix: 16), let file = try? ElfImage(path: path) else {
        return nil
      }
      let mapping = Module.Mapping(start: RuntimeAddress(range[0]), end: RuntimeAddress(range[1]), fileOffset: offset)
      return Module(path: path, buildID: file.buildID, mappings: [mapping])
    }
}

@Suite(.ownThread) struct FoldedFunctionTests {
  @Test func namesAllFoldedFunctions() throws {
    let fixture = Fixture()
    try fixture.write(
      """
      __attribute__((noinline)) int tax(int n) { return n * 7 + 3; }
      __attribute__((noinline)) int fee(int n) { return n * 7 + 3; }
      __attribute__((noinline)) int sum(int n) { return n * 7 + 4; }
      int main(int c, char **v) { (void)v; return tax(c) + fee(c) + sum(c); }
      int shop_main(int c, char **v) __attribute__((alias("main")));
      """,
      "icf.c"
    )
    try fixture.run("clang -O1 -g -ffunction-sections -fuse-ld=lld -Wl,--icf=all -o icf icf.c")
    let file = SymbolFile(try ElfImage(path: fixture.path("icf")), search: DebugSearch())
    func name(_ symbol: String) throws -> String? {
      file.frames(at: try fixture.address(of: symbol, in: "icf"), module: "/opt/icf").last?.function
    }
    let both = try #require(try name("tax"))
    #expect(
      both == "tax or fee (folded by the linker)" || both == "fee or tax (folded by the linker)"
    )
    #expect(try name("fee") == both && name("sum") == "sum")
    #expect(try name("main").map { ["main", "shop_main"].contains($0) } ?? false)
  }
}
