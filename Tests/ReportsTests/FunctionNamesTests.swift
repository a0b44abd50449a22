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
}
