import Foundation
import Testing

@testable import CulpritSymbols

private func generatedNames(_ kind: String) throws -> [(name: String, reading: String)] {
  try generatedLines("names.txt", separator: "\t").filter { $0.count == 3 && $0[0] == kind }
    .map { (String($0[1]), String($0[2])) }
}

@Suite struct GeneratedCxxNameTests {
  @Test func shortensGeneratedCxxNames() throws {
    let names = try generatedNames("c++")
    try #require(names.count >= 300)
    for (name, short) in names { #expect(CxxName(demangled: name).short == short, "\(name)") }
  }

  @Test func shortensTruncatedNames() {
    let names = [
      "bool shop::operator< <int>(shop::Box<(a > b)>, {lambda(int)#1})", "shop::run(int)::'lambda0'(char) const",
      "'unnamed'::find[abi:x](int)", "std::operator\"\" _km(long double) noexcept", "}])>((", "operator", "a::operator",
    ]
    for name in names {
      for count in 1...name.utf8.count { #expect(!CxxName(demangled: String(name.prefix(count))).short.isEmpty) }
    }
  }

  /// LLVM's demangler prints the first lambda without a number, the second with 0.
  @Test(arguments: [
    ("main::'lambda'(int)::operator()(int) const", "lambda #1 in main"),
    ("shop::run()::'lambda0'()::operator()() const", "lambda #2 in shop::run"),
    ("shop::run()::'lambda7'(shop::Box<(a > b)>)::operator()(int) const", "lambda #9 in shop::run"),
    ("shop::'unnamed'::find(int)", "shop::unnamed::find"), ("shop::'unnamed0'::find(int)", "shop::unnamed0::find"),
    ("TLS init function for shop::cache", "initialization of thread-local shop::cache"),
    ("guard variable for shop::run(int)::once", "guard variable of once in shop::run"),
    ("typeinfo for shop::Box<int>", "typeinfo for shop::Box"),
    ("construction vtable for shop::A-in-shop::B", "construction vtable for shop::A-in-shop::B"),
    ("int (&shop::choose<double>(double))[3]", "shop::choose"), ("operators::find(int)", "operators::find"),
    ("operator9(int)", "operator9"), ("operatorZ(int)", "operatorZ"), ("operatora(int)", "operatora"),
    ("operatorz(int)", "operatorz"), ("operatorA(int)", "operatorA"), ("operator0(int)", "operator0"),
    ("a::operator@", "a::operator@"), ("shop::Box<&(shop::operator<)>::find()", "shop::Box::find"),
    ("shop::run(int)::{default arg#1}", "default arg #1 in shop::run"),
  ])
  func shortensUnusualCxxNames(printed: String, short: String) {
    #expect(CxxName(demangled: printed).short == short)
  }

  /// No demangler knows the end of these names.
  @Test func readsPrefixOfUnknownMangling() throws {
    let names = try generatedNames("cut")
    try #require(names.count >= 100)
    for (name, short) in names { #expect(CxxName(mangled: name)?.short == short, "\(name)") }
    for name in ["_Z", "_ZN", "_ZNK", "_ZX3abc", "_ZL0", "_ZN4abc", "_Z12_GLOBAL__N_1"] {
      #expect(CxxName(mangled: name) == nil, "\(name)")
    }
    let many = String(repeating: "1a", count: 20)
    #expect(CxxName(mangled: "_ZN" + many)?.short.split(separator: ":").count == 16)
    #expect(CxxName(mangled: "_Z2:a")?.short == ":a" && CxxName(mangled: "_Z2/a")?.short == "/a")
    #expect(demangle("_ZNK4shop5Index4find@").short == "shop::Index::find")
    #expect(demangle("_ZL6helper@").short == "helper")
  }
}

@Suite struct UnusualSwiftNameTests {
  @Test(arguments: [0, 1, 9, 10, 19, 90, 100]) func parsesMultiDigitNumbers(number: Int) {
    let closure = SwiftName(demangled: "closure #\(number) (Swift.Int) -> () in Shop.run() -> ()")
    #expect(closure.short == "closure #\(number) in run()")
    for kind in ["suspend", "await"] {
      let piece = SwiftName(demangled: "(\(number)) \(kind) resume partial function for Shop.run() async -> ()")
      #expect(piece.short == "run()" && piece.function == "Shop.run() async -> ()" && piece.kind == .function)
    }
    let implicit = SwiftName(demangled: "implicit closure #\(number) () -> () in Shop.run() -> ()")
    #expect(implicit.short == "run()" && implicit.function == "Shop.run() -> ()")
  }

  @Test(arguments: [
    ("merged ", true, false), ("dynamic ", false, false), ("@nonobjc ", false, false), ("override ", false, false),
    ("(3) suspend resume partial function for ", false, false),
    ("generic specialization <Swift.Int> of ", false, false),
    ("@objc ", false, true), ("partial apply forwarder for ", false, true), ("dispatch thunk of ", false, true),
    ("curry thunk of ", false, true),
    ("vtable thunk for Shop.Base.go(_: Swift.Int) -> () dispatching to ", false, true),
  ])
  func attributesNestedVariantsToFunction(head: String, isMerged: Bool, isThunk: Bool) {
    let function = "Shop.Cart.pay(for: Swift.Int) -> ()"
    for (other, otherIsMerged, otherIsThunk) in [
      ("", false, false), ("merged ", true, false), ("dynamic ", false, false), ("partial apply for ", false, true),
    ] {
      for text in [head + other, other + head] {
        let name = SwiftName(demangled: text + function)
        #expect(name.short == "Cart.pay(for:)" && name.module == "Shop" && name.function == function, "\(text)")
        #expect(name.isMerged == (isMerged || otherIsMerged), "\(text)")
        #expect(name.kind == (isThunk || otherIsThunk ? .thunk : .function), "\(text)")
      }
    }
  }

  @Test(arguments: [
    ("Shop.Order", "Order"), ("Shop.Order.Line", "Order.Line"), ("[Swift.Int]", "Array"),
    ("[Swift.String : Swift.Int]", "Dictionary"), ("Swift.Int?", "Int?"), ("[Shop.Order?]?", "Array?"), ("()", "()"),
    ("(Swift.Int, Shop.Order)", "a tuple"), ("(Swift.Int) -> ()", "a closure"), ("((Swift.Int) -> ())?", "a closure?"),
    ("@escaping () -> Swift.Int", "a closure"), ("Shop.A & Shop.B", "A & B"),
    ("<A where A: Shop.P> Shop.Box<A>", "Box"),
    ("<<opaque return type of Shop.run() -> some>>.0", "an opaque type"), ("Shop.(Hidden in _12AB)", "Hidden"),
    ("inout Shop.Order", "Order"), ("Shop.Box<(Swift.Int) -> [Swift.Int]>", "Box"),
  ])
  func shortensTypesInMetadataAccessors(type: String, short: String) {
    #expect(SwiftName(demangled: "type metadata accessor for \(type)").short == "type metadata of \(short)")
  }

  @Test(arguments: [
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 0, "for"),
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 1, "argument 2"),
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 2, "with"),
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 3, "argument 4"),
  ])
  func labelsDefaultArguments(function: String, number: Int, label: String) {
    let name = SwiftName(demangled: "default argument \(number) of \(function)")
    #expect(name.short == "default of \(label) in run(for:_:with:)")
    #expect(name.function == "default argument \(number) of \(function)")
    let closure = SwiftName(demangled: "closure #1 () -> () in default argument \(number) of \(function)")
    #expect(closure.short == "closure #1 in default of \(label) in run(for:_:with:)")
  }
}

@Suite struct GeneratedRustNameTests {
  @Test func generatedRustNamesMatchBinutils() throws {
    let names = try generatedNames("rust")
    try #require(names.count >= 600)
    for (name, full) in names { #expect(RustName(name)?.full == full, "\(name)") }
  }

  @Test(arguments: [
    ("INvC1a1f", "S", "a", "", "E"), ("INvC1a1f", "P", "a", "", "E"), ("INvC1a1f", "O", "a", "", "E"),
    ("INvC1a1f", "R", "a", "", "E"), ("INvC1a1f", "QL_", "a", "", "E"), ("INvC1a1f", "T", "a", "E", "E"),
    ("INvC1a1f", "A", "a", "j1_", "E"), ("INvC1a1f", "FE", "a", "", "E"), ("INvC1a1f", "F", "a", "Eu", "E"),
    ("", "Nv", "C1a", "1b", ""), ("", "I", "C1a", "E", ""),
    ("", "MC1a", "a", "", ""), ("", "XC1a", "a", "C1a", ""), ("", "Y", "a", "C1a", ""),
  ])
  func boundsNestingDepth(head: String, open: String, inner: String, close: String, tail: String) {
    func name(_ depth: Int) -> RustName? {
      func repeated(_ text: String) -> String { String(repeating: text, count: depth) }
      return RustName("_R" + head + repeated(open) + inner + repeated(close) + tail)
    }
    #expect(name(20) != nil && name(70) == nil && name(5000) == nil)
  }

  /// Each level refers to the previous level twice, so a complete name would have 10^12 pieces.
  @Test(arguments: [("INvC1a1f", "T", "E", "E"), ("INvC1a1f", "Y", "", "E")])
  func boundsBackreferenceExpansion(head: String, open: String, close: String, tail: String) {
    let digits = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    func name(_ levels: Int) -> String {
      var text = head
      var before = text.count
      text += open == "Y" ? "C1b" : "a"
      for _ in 0..<levels {
        let start = text.count
        let place =
          "B" + (before < 63 ? "\(digits[before - 1])_" : "\(digits[(before - 1) / 62])\(digits[(before - 1) % 62])_")
        text += open + place + place + close
        before = start
      }
      return "_R" + text + tail
    }
    #expect(RustName(name(3)) != nil && RustName(name(40)) == nil)
  }

  @Test func decodesNonASCIIIdentifiers() throws {
    let names = try generatedNames("letters")
    try #require(names.count >= 150)
    for (name, short) in names {
      #expect(RustName(name)?.short.unicodeScalars.elementsEqual(short.unicodeScalars) == true, "\(name)")
    }
  }
}
