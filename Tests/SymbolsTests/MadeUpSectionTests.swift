import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct MadeUpSectionTests {
  private let wide = UnitEncoding(version: 5, addressBytes: 8, isWide: false)
  private let narrow = UnitEncoding(version: 4, addressBytes: 4, isWide: false)

  private func ranges(_ pairs: [(UInt64, UInt64)]) -> [AddressRange] {
    pairs.map { AddressRange(start: $0.0, end: $0.1) }
  }

  private func words(_ numbers: [UInt32]) -> [UInt8] {
    numbers.flatMap { number in withUnsafeBytes(of: number.littleEndian) { Array($0) } }
  }

  private func longs(_ numbers: [UInt64]) -> [UInt8] {
    numbers.flatMap { number in withUnsafeBytes(of: number.littleEndian) { Array($0) } }
  }

  private func withBytes<Result>(_ bytes: [UInt8], _ body: (Bytes) -> Result) -> Result {
    bytes.withUnsafeBytes { body(Bytes(base: $0.baseAddress ?? Bytes.none.base, count: $0.count)) }
  }

  private func old(_ bytes: [UInt8], at offset: Int = 0, base: UInt64, _ encoding: UnitEncoding) -> [AddressRange] {
    withBytes(bytes) { RangeList.old($0, at: offset, base: base, encoding) }
  }

  /// A list in `.debug_rnglists`, in a unit with the addresses 0x500, 0x600 and 0x700.
  private func new(_ bytes: [UInt8], base: UInt64 = 0x100) -> [AddressRange] {
    withBytes(bytes) {
      RangeList.new($0, at: 0, base: base, wide) { $0 < 3 ? 0x500 + 0x100 * $0 : nil }
    }
  }

  @Test func readsDWARF4RangeLists() {
    let list = words([0x10, 0x20, 0x30, 0x30, 0x50, 0x40, .max, 0x2000, 0x1, 0x2, 0, 0, 0x70, 0x80])
    #expect(old(list, base: 0x1000, narrow) == ranges([(0x1010, 0x1020), (0x2001, 0x2002)]))
    #expect(old(list, at: 40, base: 0x1000, narrow) == [])
    #expect(old(list, at: 48, base: 0x1000, narrow) == ranges([(0x1070, 0x1080)]))
    #expect(
      old(longs([.max, 0x3000, 8, 9, 0, 5, 0, 0]), base: 0, wide) == ranges([(0x3008, 0x3009), (0x3000, 0x3005)])
    )
    // Truncated within a pair.
    #expect(old(words([1, 2, 3]), base: 0x1000, narrow) == ranges([(0x1001, 0x1002)]))
    #expect(old(words([0, 5, 0, 0]), base: 0, narrow) == [])
  }

  @Test func readsDWARF5RangeLists() {
    // Each kind of entry (DWARF 5, 7.25).
    #expect(new([4, 1, 5, 0, 4, 9, 10]) == ranges([(0x101, 0x105)]))
    #expect(new([1, 1, 4, 1, 5, 0]) == ranges([(0x601, 0x605)]))
    #expect(new([2, 0, 2, 0]) == ranges([(0x500, 0x700)]))
    #expect(new([3, 2, 0x80, 1, 0]) == ranges([(0x700, 0x780)]))
    #expect(new([5] + longs([0x9000]) + [4, 0, 3, 0]) == ranges([(0x9000, 0x9003)]))
    #expect(new([6] + longs([0x20, 0x30]) + [0]) == ranges([(0x20, 0x30)]))
    #expect(new([7] + longs([0x20]) + [8, 0]) == ranges([(0x20, 0x28)]))
    // Dropped and empty code, and addresses that are not in the table.
    #expect(new([4, 0, 5, 0], base: 0) == [] && new([4, 1, 5, 0], base: 0) == ranges([(1, 5)]))
    #expect(new([4, 0, 5, 0]) == ranges([(0x100, 0x105)]))
    #expect(new([2, 3, 1, 0]) == [] && new([6] + longs([0, 8]) + [7] + longs([8]) + [0, 0]) == [])
    // A truncated list, and an entry of an unknown kind.
    #expect(
      new([4, 1, 5, 4, 6]) == ranges([(0x101, 0x105)]) && new([4, 1, 5, 8, 4, 6, 7, 0]) == ranges([(0x101, 0x105)])
    )
  }

  @Test func limitsRangeListLength() {
    let entries = (1 << 16) + 10
    #expect(new((0..<entries).flatMap { _ in [4, 1, 5] as [UInt8] }).count == 1 << 16)
    let pairs = words((0..<entries).flatMap { _ in [1, 5] as [UInt32] })
    #expect(old(pairs, base: 0x100, narrow).count == 1 << 16)
  }

  @Test func excludesRangeEnd() {
    let range = AddressRange(start: 5, end: 7)
    #expect((4...8).map { range.contains($0) } == [false, true, true, false, false])
  }

  @Test func parsesPerfMaps() {
    let text = """
      1000 10 first function
      0x2000 0x8 second
      3000 0 empty
      4000 5
      zzzz 10 no number
      ffffffffffffffff 2 beyond
      1000 20 third
      900 4 earlier
      """
    let map = PerfMap(text: Array(text.utf8), path: "/tmp/perf-1.map")
    for (address, name, start) in [
      (0x8ff, nil, 0), (0x900, "earlier", 0x900), (0x903, "earlier", 0x900), (0x904, nil, 0), (0xfff, nil, 0),
      (0x1000, "third", 0x1000), (0x101f, "third", 0x1000), (0x1020, nil, 0), (0x2007, "second", 0x2000),
      (0x2008, nil, 0), (0x3000, nil, 0), (0x4000, nil, 0), (.max, nil, 0),
    ] as [(UInt64, String?, UInt64)] {
      let found = map.function(at: RuntimeAddress(address))
      #expect(found?.name == name && found?.start ?? 0 == start, "\(address)")
    }
    #expect(map.path == "/tmp/perf-1.map")
  }

  @Test func rejectsPartsOutOfBounds() {
    withBytes([1, 2, 3, 4]) { bytes in
      #expect(bytes.part(0, 4)?.count == 4 && bytes.part(4, 0)?.count == 0 && bytes.part(1, 3)?.count == 3)
      #expect(
        bytes.part(1, 4) == nil && bytes.part(5, 0) == nil && bytes.part(0, 5) == nil && bytes.part(.max, 1) == nil
      )
      #expect(
        bytes.from(3).count == 1 && bytes.from(4).count == 0 && bytes.from(5).count == 0 && bytes.from(-1).count == 0
      )
    }
  }

  @Test func readsFilesWholeOrNotAtAll() throws {
    let fixture = Fixture()
    try fixture.write("12345", "five")
    #expect(ProcessFiles.readWhole(fixture.path("five"), limit: 6) == Array("12345".utf8))
    #expect(ProcessFiles.readWhole(fixture.path("five"), limit: 5) == nil)
    try #require(symlink("five", fixture.path("link")) == 0)
    #expect(ProcessFiles.readWhole(fixture.path("link"), limit: 6) == nil)
    #expect(ProcessFiles.readWhole(fixture.directory, limit: 6) == nil)
    #expect(ProcessFiles.readWhole(fixture.path("none"), limit: 6) == nil)
  }
}

@Suite(.ownThread) struct WhichFileRanTests {
  private let fixture = Fixture()
  private let code = "int answer(void) { return 42; }\n"

  private func buildLibraries() throws {
    try fixture.write(code, "a.c")
    try fixture.run("gcc -g -shared -fPIC -Wl,--build-id=none -o plain.so a.c")
    try fixture.run("gcc -g -shared -fPIC -Wl,--build-id -o marked.so a.c")
  }

  private func name(_ module: Module, _ address: FileAddress, process: Int32? = nil, unread: [String: String] = [:])
    throws -> ResolvedFrame
  {
    let symbolizer = Symbolizer(modules: [module], process: process, unread: unread)
    return try #require(symbolizer.resolve(.programCounter(RuntimeAddress(0x10_0000 + address.value))).first)
  }

  private func module(_ path: String, _ buildID: [UInt8] = []) -> Module {
    let mapping = Module.Mapping(start: RuntimeAddress(0x10_0000), end: RuntimeAddress(0x20_0000), fileOffset: 0)
    return Module(path: path, buildID: buildID, mappings: [mapping])
  }

  @Test func verifiesFileByBuildID() throws {
    try buildLibraries()
    let (plain, marked) = (fixture.path("plain.so"), fixture.path("marked.so"))
    let address = try fixture.address(of: "answer", in: "marked.so")
    let buildID = try ElfImage(path: marked).buildID
    let other = try fixture.address(of: "answer", in: "plain.so")
    #expect(try name(module(plain), other).function == "answer")
    #expect(try name(module(marked, buildID), address).function == "answer")
    let found = hexadecimal(buildID)
    #expect(try name(module(marked), address).missing == .changedFile(expected: "none", found: found))
    #expect(try name(module(plain, buildID), other).missing == .changedFile(expected: found, found: "none"))
    #expect(try name(module(plain + " (deleted)"), other).missing == .unverifiable)
    #expect(try name(module(marked + " (deleted)", buildID), address).function == "answer")
    #expect(
      try name(module(marked, buildID), address, unread: [marked: "not now"]).missing == .unreadableFile("not now")
    )
  }

  @Test func rejectsForeignFileWithoutBuildID() throws {
    try fixture.write("#include <unistd.h>\nint main(void) { alarm(3600); for (;;) pause(); }\n", "sleeper.c")
    try fixture.run("gcc -g -O0 -Wl,--build-id=none -o sleeper sleeper.c")
    try #require(try ElfImage(path: fixture.path("sleeper")).buildID.isEmpty)
    let main = try fixture.address(of: "main", in: "sleeper")
    let path = fixture.path("sleeper")
    var child = pid_t()
    var arguments: [UnsafeMutablePointer<CChar>?] = [strdup(path), nil]
    defer { free(arguments[0]) }
    try #require(posix_spawn(&child, path, nil, nil, &arguments, nil) == 0)
    defer {
      kill(child, SIGKILL)
      waitpid(child, nil, 0)
    }
    // The parent continues before the program is mapped.
    var line: Substring?
    for _ in 0..<60_000 where line == nil {
      let maps = try String(contentsOfFile: "/proc/\(child)/maps", encoding: .utf8)
      line = maps.split(separator: "\n").first { $0.contains(" r-xp ") && $0.hasSuffix(path) }
      if line == nil { usleep(1000) }
    }
    let gone = module(path + " (deleted)")
    #expect(try name(gone, main, process: child).missing == .unverifiable)
    let bounds = try #require(line).prefix { $0 != " " }.split(separator: "-").compactMap { UInt64($0, radix: 16) }
    try #require(bounds.count == 2)
    var there = gone
    there.mappings = [
      Module.Mapping(start: RuntimeAddress(bounds[0]), end: RuntimeAddress(bounds[1]), fileOffset: main.value & ~0xfff)
    ]
    let frame = StackFrame.programCounter(RuntimeAddress(bounds[0] + (main.value & 0xfff)))
    #expect(Symbolizer(modules: [there], process: child).resolve(frame).first?.missing == .unverifiable)
    #expect(try name(gone, main, process: getpid()).missing == .unverifiable)
  }

  @Test func placesCodeWithoutLinesAtDeclaration() throws {
    try fixture.write("\n\nint answer(int a) {\n  return a * 42;\n}\n", "a.c")
    try fixture.run("gcc -g -O0 -fPIC -S a.c && sed -i '/\\.loc/d' a.s && gcc -shared -o lineless.so a.s")
    let address = try fixture.address(of: "answer", in: "lineless.so")
    let path = fixture.path("lineless.so")
    let found = try name(module(path, ElfImage(path: path).buildID), address)
    #expect(found.location?.line == 3 && found.location?.file.hasSuffix("a.c") == true)
  }

  @Test func placesCodeWithoutLineAtNextCode() throws {
    try fixture.write("int pay(int n) {\n#line 0\n  n = n * 7;\n#line 9\n  return n + 3;\n}\n", "pay.c")
    try fixture.run("clang -g -O0 -fPIC -shared -o pay.so pay.c")
    let file = SymbolFile(try ElfImage(path: fixture.path("pay.so")), search: DebugSearch())
    let start = try fixture.address(of: "pay", in: "pay.so").value
    let lineless = (start..<start + 32).map { FileAddress($0) }.filter { file.calls(at: $0).last?.line == 0 }
    try #require(!lineless.isEmpty)
    for address in lineless { #expect(file.frames(at: address, module: "/opt/pay").last?.location?.line == 9) }
  }

  @Test func rejectsReplacedFileWithoutBuildID() throws {
    try buildLibraries()
    let plain = fixture.path("plain.so")
    let address = try fixture.address(of: "answer", in: "plain.so")
    let file = try ElfImage(path: plain)
    let present = try #require(ProcessFiles.ownIdentity(at: UInt64(UInt(bitPattern: file.bytes.base))))
    var unloaded = module(plain)
    unloaded.identity = present
    #expect(try name(unloaded, address, process: getpid()).function == "answer")
    unloaded.identity = present + "0"
    #expect(try name(unloaded, address, process: getpid()).missing == .unverifiable)
  }

  @Test func listsProcessPathsOfMappings() {
    var module = module("/a")
    #expect(ProcessFiles.paths(of: module, in: 7) == ["/proc/7/exe", "/proc/7/map_files/100000-200000"])
    module.mappings = Array(repeating: module.mappings[0], count: 6)
    #expect(ProcessFiles.paths(of: module, in: 7).count == 5)
  }

  @Test func prefersRecordedNames() throws {
    try buildLibraries()
    let address = try fixture.address(of: "answer", in: "plain.so")
    let place = RuntimeAddress(0x10_0000 + address.value)
    func resolve(_ noted: ResolvedFrame?, _ path: String = "plain.so") -> [ResolvedFrame] {
      Symbolizer(modules: [module(fixture.path(path))], names: [place: noted.map { [$0] } ?? []])
        .resolve(.programCounter(place))
    }
    let named = ResolvedFrame(function: "noted", module: "/x", address: .file(address))
    let nameless = ResolvedFrame(function: nil, module: "/x", address: .file(address), missing: .noSymbols)
    #expect(resolve(named) == [named] && resolve(named, "none.so") == [named])
    #expect(resolve(nameless).first?.function == "answer" && resolve(nameless, "none.so") == [nameless])
    #expect(resolve(nil).first?.function == "answer")
    // Recordings contain the symbol, which determines the full name. The full name distinguishes overloads.
    var overload = ResolvedFrame(function: "find", rawName: "_ZN4shop4findEi", module: "/x", address: .file(address))
    let restored = resolve(overload)
    overload.fullName = "shop::find(int)"
    #expect(restored == [overload])
  }
}
