import CulpritStallRecord
import Testing

@testable import CulpritReports

@Suite struct FunctionNamesTests {
  private func frame(_ name: String, _ module: String?, _ raw: String) -> ResolvedFrame {
    ResolvedFrame(
      function: name,
      rawName: raw,
      swiftModule: module,
      sourceFunction: raw,
      module: "/shop",
      address: .file(FileAddress(1))
    )
  }

  @Test func aClosureHasItsNumberOnlyBesideAnother() {
    let (first, second) = (frame("closure #1 in load()", "Shop", "a"), frame("closure #2 in load()", "Shop", "b"))
    #expect(FunctionNames([second, frame("load()", "Shop", "c"), second]).name(second) == "closure in load()")
    let both = FunctionNames([first, second])
    #expect([first, second].map(both.name) == ["closure #1 in load()", "closure #2 in load()"])
  }

  @Test func namesakesAreToldApartByTheirModules() {
    let frames = [
      frame("Store.load()", "Orders", "a"), frame("Store.load()", "Users", "b"), frame("Store.save()", "Users", "c"),
      frame("closure #1 in Store.load()", "Orders", "d"), frame("closure #1 in Store.load()", "Users", "e"),
    ]
    #expect(
      frames.map(FunctionNames(frames).name) == [
        "Orders.Store.load()", "Users.Store.load()", "Store.save()", "closure #1 in Orders.Store.load()",
        "closure #1 in Users.Store.load()",
      ]
    )
  }

  /// Specialisations of a function and its pieces are one function.
  @Test func variantsAreNoNamesakes() {
    var special = frame("Store.load()", "Orders", "a")
    special.rawName = "a specialised"
    let plain = frame("Store.load()", "Orders", "a")
    #expect(FunctionNames([plain, special]).name(special) == "Store.load()")
  }

  /// By the first of module, library, file and line that tells most of them apart.
  @Test func namesakesOfOneModuleAreToldApartByTheirPlaces() {
    func frame(_ raw: String, _ place: (String, Int)?, module: String = "/shop") -> ResolvedFrame {
      var frame = self.frame("load()", "Shop", raw)
      frame.location = place.map { SourceLocation(file: "/src/\($0.0)", line: $0.1) }
      frame.module = module
      return frame
    }
    func names(_ frames: [ResolvedFrame]) -> [String] { frames.map(FunctionNames(frames).name) }
    #expect(names([frame("a", ("a.c", 1)), frame("b", ("b.c", 1))]) == ["load() (a.c)", "load() (b.c)"])
    #expect(names([frame("a", ("a.c", 1)), frame("b", ("a.c", 2))]) == ["load() (a.c:1)", "load() (a.c:2)"])
    #expect(names([frame("a", ("a.c", 1)), frame("b", nil)]) == ["load() (a.c)", "load()"])
    #expect(
      names([frame("a", ("a.c", 1), module: "/x/one.so"), frame("b", ("b.c", 1), module: "/x/two.so")])
        == ["load() (one.so)", "load() (two.so)"]
    )
    // Three of which the library tells two apart, and the file all.
    #expect(
      names([
        frame("a", ("a.c", 1), module: "/one.so"), frame("b", ("b.c", 1), module: "/two.so"),
        frame("c", ("c.c", 1), module: "/two.so"),
      ]) == ["load() (a.c)", "load() (b.c)", "load() (c.c)"]
    )
    #expect(names([frame("a", ("a.c", 1)), frame("b", ("a.c", 1))]) == ["load()", "load()"])
  }
}
