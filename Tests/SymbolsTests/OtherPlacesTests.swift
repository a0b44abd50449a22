import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct OtherPlacesTests {
  private let fixture = Fixture()

  @Test(arguments: [
    "gcc -O1", "gcc -O1 -Wl,-z,now", "gcc -O1 -fcf-protection=full -Wl,-z,ibtplt", "gcc -O1 -no-pie",
    "clang -O1 -fuse-ld=lld", "clang -O1 -fuse-ld=lld -Wl,-z,now",
  ])
  func namesStubsAfterTargets(compiler: String) throws {
    try fixture.write(
      """
      #include <stdio.h>
      #include <unistd.h>
      int main(int count, char **words) { puts(words[0]); return getpid() == count && isatty(count); }
      """,
      "stubs.c"
    )
    try fixture.run("\(compiler) -o stubs stubs.c")
    let listed = try fixture.run("objdump -d stubs").split(separator: "\n").filter { $0.hasSuffix("@plt>:") }
    try #require(listed.count >= 3)
    let symbolizer = try fixture.symbolizer("stubs")
    for line in listed {
      let name = line.drop { $0 != "<" }.dropFirst().dropLast(2)
      // The weak __cxa_finalize can have another form of stub.
      guard name != "__cxa_finalize@plt" else { continue }
      let address = try #require(UInt64(line.prefix { $0 != " " }, radix: 16))
      for offset in [0, 4, 6] as [UInt64] {
        #expect(symbolizer.describe(FileAddress(address + offset)).stub == String(name))
      }
    }
  }

  /// The relocation of an IFUNC's stub has no name.
  @Test func namesIFUNCStubs() throws {
    try fixture.write(
      """
      static int plain(int x) { return x * 3; }
      static int (*choose(void))(int) { return plain; }
      int pay(int) __attribute__((ifunc("choose")));
      extern int own_pay(int) __attribute__((alias("pay"), visibility("hidden")));
      int call(int x) { return own_pay(x) + 1; }
      """,
      "chosen.c"
    )
    try fixture.run("gcc -O1 -shared -fPIC -o chosen.so chosen.c")
    let lines = try fixture.run("objdump -d chosen.so").split(separator: "\n")
    let line = try #require(lines.first { $0.contains("<*ABS*+") && $0.hasSuffix("@plt>:") })
    let address = FileAddress(try #require(UInt64(line.prefix { $0 != " " }, radix: 16)))
    let symbolizer = try fixture.symbolizer("chosen.so")
    #expect(symbolizer.describe(address).stub == "pay@plt")
    // The first PLT entry leads to the dynamic linker.
    #expect(symbolizer.describe(FileAddress(address.value & ~0xf - 16)).stub == "PLT stub")
  }

  /// Static programs have shorter stubs, for IFUNCs only.
  @Test func namesStubsOfStaticPrograms() throws {
    try fixture.write(
      """
      static int plain(int x) { return x * 3; }
      static int other(int x) { return x * 5; }
      static int (*choose(void))(int) { return plain; }
      static int (*decide(void))(int) { return other; }
      int pay(int) __attribute__((ifunc("choose")));
      int refund(int) __attribute__((ifunc("decide")));
      void _start(void) { for (int i = 0;; i++) i += pay(i) + refund(i); }
      """,
      "static.c"
    )
    try fixture.run("gcc -O1 -static -nostdlib -no-pie -fno-pie -o static static.c")
    let image = try ElfImage(path: fixture.path("static"))
    let table = try #require(image.sections.first { $0.name == ".plt" })
    let symbolizer = try fixture.symbolizer("static")
    let names = stride(from: table.address, to: table.address + table.size, by: 4)
      .map { symbolizer.describe(FileAddress($0)).stub ?? "" }
    #expect(names.count == 4 && names[0] == names[1] && names[2] == names[3])
    #expect(Set(names) == ["pay@plt", "refund@plt"])
  }

  @Test func demanglesStubNames() throws {
    try fixture.write("namespace shop { int pay(int amount) { return amount; } }\n", "shop.cpp")
    try fixture.write(
      "namespace shop { int pay(int); }\nint main(int n, char **) { return shop::pay(n); }\n",
      "main.cpp"
    )
    try fixture.run("g++ -shared -fPIC -o libshop.so shop.cpp && g++ -O1 -o stubs main.cpp -L. -lshop")
    let line = try #require(
      fixture.run("objdump -d stubs").split(separator: "\n").first { $0.hasSuffix("<_ZN4shop3payEi@plt>:") }
    )
    let address = try #require(UInt64(line.prefix { $0 != " " }, radix: 16))
    let file = try SymbolFile(ElfImage(path: fixture.path("stubs")), search: DebugSearch())
    let frame = try #require(file.frames(at: FileAddress(address), module: "stubs").last)
    #expect(frame.function == "shop::pay@plt" && frame.rawName == ".plt")
    #expect(demangledName("_ZN4shop3payEi@plt") == "shop::pay(int)@plt")
  }

  @Test func namesVDSOFunctions() throws {
    let image = try #require(ProcessFiles.ownVDSO())
    let maps = String(decoding: try #require(ProcessFiles.readWhole("/proc/self/maps", limit: 1 << 30)), as: UTF8.self)
    let line = try #require(maps.split(separator: "\n").first { $0.hasSuffix("[vdso]") })
    let range = line.prefix { $0 != " " }.split(separator: "-").compactMap { UInt64($0, radix: 16) }
    let mapping = Module.Mapping(start: RuntimeAddress(range[0]), end: RuntimeAddress(range[1]), fileOffset: 0)
    let handle = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD)
    let symbol = try #require(dlsym(handle, "__vdso_clock_gettime"))
    let frame = StackFrame.programCounter(RuntimeAddress(UInt64(UInt(bitPattern: symbol))))
    let module = Module(path: "[vdso]", buildID: image.buildID, mappings: [mapping])
    let name = Symbolizer(modules: [module]).resolve(frame).first?.function
    #expect(name == "__vdso_clock_gettime" || name == "clock_gettime")
    let other = Module(path: "[vdso]", buildID: [1, 2], mappings: [mapping])
    #expect(Symbolizer(modules: [other]).resolve(frame).first?.missing == .noFile)
  }

  @Test func namesJITCodeByPerfMap() throws {
    let map = PerfMap(
      text: Array(
        "7f00 10 old name\n7f20 8 b\nnonsense\n0x8000 20 LazyCompile:~run app.js:3\n7f00 18 new name\nffffffffffffffff 2 x\n"
          .utf8
      ),
      path: "map"
    )
    #expect(map.function(at: RuntimeAddress(0x7eff)) == nil)
    #expect(map.function(at: RuntimeAddress(0x7f17))?.name == "new name")
    #expect(map.function(at: RuntimeAddress(0x7f18)) == nil)
    #expect(map.function(at: RuntimeAddress(0x7f20))?.name == "b")
    #expect(map.function(at: RuntimeAddress(0x801f))?.name == "LazyCompile:~run app.js:3")
    #expect(map.function(at: RuntimeAddress(.max)) == nil)
  }

  @Test(.needsTmp(because: "perf maps are there")) func looksUpUnmappedAddressesInPerfMap() throws {
    // Above PID_MAX_LIMIT (4,194,304), and random so that runs do not collide.
    let id = Int32.random(in: 5_000_000...Int32.max)
    let path = "/tmp/perf-\(id).map"
    try #require(!FileManager.default.fileExists(atPath: path))
    try "10000 100 jitted\n".write(toFile: path, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let frame = try #require(
      Symbolizer(modules: [], process: id).resolve(.programCounter(RuntimeAddress(0x10010))).first
    )
    #expect(frame.function == "jitted" && frame.module == path && frame.start == FileAddress(0x10000))
    #expect(frame.address == .runtime(RuntimeAddress(0x10010)))
    #expect(Symbolizer(modules: []).resolve(.programCounter(RuntimeAddress(0x10010))).first?.missing == .notMapped)
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "/etc/passwd")
    #expect(PerfMap(process: id) == nil)
  }

  /// /tmp is writable for everyone, so only files of root and of the current user are trusted.
  @Test(.needsRoot(to: "change a file's owner"), .needsTmp(because: "perf maps are there"))
  func rejectsPerfMapOfOtherUser() throws {
    let id: Int32 = .random(in: 5_000_000...Int32.max)
    let path = "/tmp/perf-\(id).map"
    try "10000 100 jitted\n".write(toFile: path, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(atPath: path) }
    #expect(PerfMap(process: id) != nil)
    try #require(chown(path, 12_345, 12_345) == 0)
    #expect(PerfMap(process: id) == nil)
  }

  @Test func readsReplacedExecutableThroughProcess() throws {
    try fixture.write("#include <unistd.h>\nint main(void) { alarm(3600); for (;;) pause(); }\n", "sleeper.c")
    try fixture.run("gcc -g -O0 -Wl,--build-id -o sleeper sleeper.c && cp sleeper copy")
    let image = try ElfImage(path: fixture.path("copy"))
    let process = try RunningProcess(fixture.path("sleeper"), [])
    defer {
      kill(process.id, SIGTERM)
      process.end()
    }
    // Until exec(2) the child is a copy of the test process.
    while realPath("/proc/\(process.id)/exe") != realPath(fixture.path("sleeper")) { usleep(1000) }
    try fixture.run("gcc -g -O2 -Wl,--build-id -o other sleeper.c && mv other sleeper")
    let mapping = Module.Mapping(start: RuntimeAddress(0x10_0000), end: RuntimeAddress(0x20_0000), fileOffset: 0)
    let module = Module(path: fixture.path("sleeper"), buildID: image.buildID, mappings: [mapping])
    let main = try fixture.address(of: "main", in: "copy")
    let frame = StackFrame.programCounter(RuntimeAddress(0x10_0000 + main.value))
    let found = Symbolizer(modules: [module], process: process.id).resolve(frame)
    #expect(found.first?.function == "main")
    #expect(found.first?.location?.line == 2)
    guard case .changedFile = Symbolizer(modules: [module]).resolve(frame).first?.missing else {
      Issue.record("the replacement of the file was accepted")
      return
    }
  }
}
