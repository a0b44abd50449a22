import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritBlame
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

  @Test func numbersClosuresOnlyIfAmbiguous() {
    let (first, second) = (frame("closure #1 in load()", "Shop", "a"), frame("closure #2 in load()", "Shop", "b"))
    #expect(FunctionNames([second, frame("load()", "Shop", "c"), second]).name(second) == "closure in load()")
    let both = FunctionNames([first, second])
    #expect([first, second].map(both.name) == ["closure #1 in load()", "closure #2 in load()"])
  }

  @Test func distinguishesNamesakesByModule() {
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

  @Test func treatsVariantsAsOneFunction() {
    var special = frame("Store.load()", "Orders", "a")
    special.rawName = "a specialised"
    let plain = frame("Store.load()", "Orders", "a")
    #expect(FunctionNames([plain, special]).name(special) == "Store.load()")
  }

  @Test(arguments: [
    (
      "KeyedEncodingContainer.encode(_:forKey:)",
      [
        "Swift.KeyedEncodingContainer.encode(_: Swift.String, forKey: A) throws -> ()",
        "Swift.KeyedEncodingContainer.encode(_: Swift.Int, forKey: A) throws -> ()",
        "Swift.KeyedEncodingContainer.encode<A where A1: Swift.Encodable>(_: A1, forKey: A) throws -> ()",
      ],
      [
        "KeyedEncodingContainer.encode(_: String, forKey: A)", "KeyedEncodingContainer.encode(_: Int, forKey: A)",
        "KeyedEncodingContainer.encode(_: A1, forKey: A)",
      ]
    ),
    (
      "load(_:)",
      [
        "Shop.(load in _0123)(_: (Swift.Int, [Foundation.Data]) -> Swift.Int...) -> ()",
        "(extension in Shop):Shop.load(_: Swift.Array<Foundation.URL>) -> ()",
      ], ["load(_: (Int, [Data]) -> Int...)", "load(_: Array<URL>)"]
    ),
    (
      "closure #1 in load()",
      ["closure #1 (Swift.Int) -> () in Shop.load() -> Swift.Int", "Shop.load() -> Swift.Bool"],
      ["closure #1 in load() -> Int", "closure #1 in load() -> Bool"]
    ),
    (
      "shop::find", ["shop::find(int)", "shop::find(std::string const&)"],
      ["shop::find(int)", "shop::find(string const&)"]
    ),
    // Operator names can contain "<", and functions without parameters have no types.
    ("< infix(_:_:)", ["static Swift.Int.> infix(Swift.Int) -> Swift.Bool", "b"], ["< infix(_:_:)", "< infix(_:_:)"]),
  ]) func distinguishesOverloadsByTypes(name: String, full: [String], expected: [String]) {
    var frames = full.map { frame(name, "Swift", $0) }
    #expect(frames.map(FunctionNames(frames).name) == expected)
    // A single function has its plain name; merged functions have no known types.
    #expect(FunctionNames([frames[0]]).name(frames[0]).hasSuffix(name.replacingOccurrences(of: " #1", with: "")))
    frames[1].isMerged = true
    #expect(!FunctionNames(frames).name(frames[1]).contains(expected[1]) || expected[1] == name)
    let other = full.map { full in
      var frame = frame(name, "Swift", full)
      frame.module = "/other.so"
      return frame
    }
    let all = full.map { frame(name, "Swift", $0) } + other
    #expect(Set(all.map(FunctionNames(all).name)).count == Set(expected).count * 2)
  }

  /// Equal names get the first of module, library, file and line that distinguishes most of them.
  @Test func distinguishesNamesakesByLocation() {
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
    // The library distinguishes two of the three functions, the file all three.
    #expect(
      names([
        frame("a", ("a.c", 1), module: "/one.so"), frame("b", ("b.c", 1), module: "/two.so"),
        frame("c", ("c.c", 1), module: "/two.so"),
      ]) == ["load() (a.c)", "load() (b.c)", "load() (c.c)"]
    )
    #expect(names([frame("a", ("a.c", 1)), frame("b", ("a.c", 1))]) == ["load()", "load()"])
  }
}
