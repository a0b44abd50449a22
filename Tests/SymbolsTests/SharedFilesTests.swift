import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct SharedFilesTests {
  @Test func opensCopiesOnce() throws {
    let fixture = Fixture()
    try fixture.write("int work(int n) { return n + 1; }\n", "work.c")
    try fixture.run("gcc -shared -fPIC -Wl,--build-id -o work.so work.c")
    try fixture.run("gcc -shared -fPIC -Wl,--build-id=none -o plain.so work.c")
    let image = try ElfImage(path: fixture.path("work.so"))
    let address = try fixture.address(of: "work", in: "work.so")
    let base: UInt64 = 0x10_0000
    func resolve(_ path: String, _ buildID: [UInt8], _ shared: SharedFiles) -> ResolvedFrame? {
      let mapping = Module.Mapping(start: RuntimeAddress(base), end: RuntimeAddress(base * 2), fileOffset: 0)
      let module = Module(path: path, buildID: buildID, mappings: [mapping])
      return Symbolizer(modules: [module], shared: shared)
        .resolve(.programCounter(RuntimeAddress(base + address.value))).first
    }
    let shared = SharedFiles()
    let (first, copy) = (fixture.path("work.so"), fixture.path("copy.so"))
    #expect(resolve(copy, image.buildID, shared)?.function == nil)
    #expect(resolve(first, image.buildID, shared)?.function == "work")
    try fixture.run("rm work.so")
    let found = resolve(copy, image.buildID, shared)
    #expect(found?.function == "work" && found?.module == copy)
    #expect(resolve(first, [1, 2, 3], shared)?.function == nil)
    #expect(resolve(first, image.buildID, SharedFiles())?.function == nil)
    // Without a build-id the path identifies the file.
    let plain = fixture.path("plain.so")
    #expect(resolve(plain, [], shared)?.function == "work" && resolve(first, [], shared)?.function == nil)
    try fixture.run("cp plain.so work.so")
    #expect(resolve(first, [], shared)?.function == nil && resolve(first, [], SharedFiles())?.function == "work")
  }

  @Test func evictsUnusedFiles() throws {
    let fixture = Fixture()
    let names = (0..<4).map { "program\($0)" }
    let base: UInt64 = 0x10_0000
    func resolve(_ name: String, _ shared: SharedFiles) throws -> String? {
      let image = try ElfImage(path: fixture.path("\(name).so"))
      let address = try fixture.address(of: name, in: "\(name).so")
      let mapping = Module.Mapping(start: RuntimeAddress(base), end: RuntimeAddress(base * 2), fileOffset: 0)
      let module = Module(path: fixture.path("\(name).so"), buildID: image.buildID, mappings: [mapping])
      return Symbolizer(modules: [module], shared: shared)
        .resolve(.programCounter(RuntimeAddress(base + address.value))).first?.function
    }
    for name in names {
      try fixture.write("int \(name)(int n) { return n + 1; }\n", "\(name).c")
      try fixture.run("gcc -shared -fPIC -Wl,--build-id -o \(name).so \(name).c")
    }
    for shared in [SharedFiles(filesMax: 2), SharedFiles(memoryMax: 1)] {
      for name in names + names.reversed() {
        #expect(try resolve(name, shared) == name)
        #expect(shared.openCount <= 2)
      }
    }
    let all = SharedFiles()
    for name in names + names { #expect(try resolve(name, all) == name) }
    #expect(all.openCount == 4)
  }
}
