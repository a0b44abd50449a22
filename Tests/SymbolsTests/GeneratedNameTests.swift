import Foundation
import SplitMix
import TestSupport
import Testing

@testable import CulpritSymbols

/// Names of C++ that are put together here at random with what readers are to get.
@Suite struct GeneratedCxxNameTests {
  private func word(_ random: inout SplitMix) -> String {
    let words = ["shop", "Index", "find", "operators", "a", "_x9", "Box", "lambda", "operator_", "é"]
    return words.randomElement(using: &random) ?? "shop"
  }

  private func type(_ depth: Int, _ random: inout SplitMix) -> String {
    let inner = depth < 3 ? { (random: inout SplitMix) in self.type(depth + 1, &random) } : { _ in "int" }
    switch Int.random(in: 0..<10, using: &random) {
    case 0: return "std::vector<\(inner(&random)), std::allocator<\(inner(&random))> >"
    case 1: return "\(inner(&random)) (*)(\(inner(&random)), char)"
    case 2: return "shop::Box<(shop::Kind)3, (4 > 3), \(inner(&random))> const&"
    case 3: return "\(inner(&random)) [12]"
    case 4: return "decltype ({parm#1}->find(\(inner(&random))))"
    case 5: return "shop::run(\(inner(&random)))::{lambda(\(inner(&random)))#2}"
    case 6: return "std::function<\(inner(&random)) ()>"
    case 7: return "shop::(anonymous namespace)::Order*"
    default: return "int"
    }
  }

  private func arguments(_ random: inout SplitMix) -> String {
    "(" + (0..<Int.random(in: 0...3, using: &random)).map { _ in type(0, &random) }.joined(separator: ", ") + ")"
  }

  private func qualifiers(_ random: inout SplitMix) -> String {
    ["", "", " const", " volatile", " const &", " &&", " const volatile noexcept", "[abi:v1]"].randomElement(
      using: &random
    ) ?? ""
  }

  /// The last part of a function's name, as it is printed and as it is to be.
  private func ending(_ random: inout SplitMix) -> (printed: String, short: String) {
    let word = word(&random)
    let type = type(1, &random)
    let symbols = [
      "()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=",
      "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<", ">", "+", "-", "*", "/", "%", "^", "&", "|", "~", "!", "=", ",",
    ]
    let symbol = "operator" + (symbols.randomElement(using: &random) ?? "+")
    switch Int.random(in: 0..<9, using: &random) {
    case 0: return (symbol, symbol)
    case 1: return ("\(symbol) <\(type), 3>", symbol)
    case 2: return ("operator new[]", "operator new[]")
    case 3: return ("operator std::vector<\(type)>", "operator std::vector")
    case 4: return ("\(word)<\(type), \(type)>", word)
    case 5: return ("~\(word)", "~\(word)")
    case 6: return ("\(word)[abi:cxx11]", word)
    case 7: return ("operator\"\" _km", "operator\"\" _km")
    default: return (word, word)
    }
  }

  @Test func whatIsPrintedOfAFunctionIsReadByItsParts() {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<3000 {
      var printed = ""
      var parts: [String] = []
      for place in 0..<Int.random(in: 1...3, using: &random) {
        if place > 0 { printed += "::" }
        if place > 0, Bool.random(using: &random) {
          let number = Int.random(in: 1...30, using: &random)
          let name = ["operator()", "_FUN"].randomElement(using: &random) ?? "_FUN"
          printed += "{lambda\(arguments(&random))#\(number)}::\(name)"
          parts.append("lambda #\(number)")
        } else {
          var short: [String] = []
          for _ in 0..<Int.random(in: 0...3, using: &random) {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: printed += "(anonymous namespace)::"
            case 1: printed += (["__cxx11", "__1", "_V2", "__ndk1"].randomElement(using: &random) ?? "__1") + "::"
            case 2:
              let number = Int.random(in: 1...9, using: &random)
              printed += "{unnamed type#\(number)}::"
              short.append("unnamed type #\(number)")
            case 3:
              let word = word(&random)
              printed += "\(word)<\(type(0, &random)), (char)60>::"
              short.append(word)
            default:
              let word = word(&random)
              printed += word + "::"
              short.append(word)
            }
          }
          let ending = ending(&random)
          printed += ending.printed
          parts.append((short + [ending.short]).joined(separator: "::"))
        }
        printed += arguments(&random) + qualifiers(&random)
      }
      // Pointers to functions and arrays have the name inside of them.
      let result = ["unsigned long const&", "std::vector<\(type(0, &random))>", "decltype (\(type(0, &random)))"]
      if Int.random(in: 0..<4, using: &random) == 0 {
        printed = (result.randomElement(using: &random) ?? "int") + " " + printed
      }
      if Int.random(in: 0..<4, using: &random) == 0 { printed += " [clone .isra.0]" }
      let thunk = ["", "", "", "non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to "]
        .randomElement(using: &random)
      printed = (thunk ?? "") + printed
      #expect(
        CxxName(demangled: printed).short == parts.reversed().joined(separator: " in "),
        "seed \(seed): \(printed)"
      )
    }
  }

  /// What is cut or rubbish is read to its end, and gives something.
  @Test func cutNamesGiveSomething() {
    let names = [
      "bool shop::operator< <int>(shop::Box<(a > b)>, {lambda(int)#1})", "shop::run(int)::'lambda0'(char) const",
      "'unnamed'::find[abi:x](int)", "std::operator\"\" _km(long double) noexcept", "}])>((", "operator", "a::operator",
    ]
    for name in names {
      for count in 1...name.utf8.count { #expect(!CxxName(demangled: String(name.prefix(count))).short.isEmpty) }
    }
  }

  /// As LLVM's demangler prints what has no name: the first lambda without a number, the second with 0.
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
  func otherNamesAreRead(printed: String, short: String) {
    #expect(CxxName(demangled: printed).short == short)
  }

  /// What begins like a name is read as far as it is one, where no demangler knows what follows.
  @Test func namesOfNewerCompilersAreReadAsFarAsTheyAreOnes() {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<300 {
      let names = (0..<Int.random(in: 1...16, using: &random))
        .map { _ in
          String(
            (0..<Int.random(in: 1...25, using: &random)).map { _ in "abcXYZ_".randomElement(using: &random) ?? "a" }
          )
        }
      var mangled = ["_Z", "_ZL", "_ZN", "_ZNK", "_ZNKL", "_ZLNK"].randomElement(using: &random) ?? "_Z"
      for name in names {
        if Int.random(in: 0..<8, using: &random) == 0 { mangled += "12_GLOBAL__N_1" }
        mangled += "\(name.utf8.count)\(name)"
      }
      // Unless sixteen are full.
      let rest = ["", "E", "?!", "E9", "ILi3E", "0abc", "99short"].randomElement(using: &random) ?? ""
      let found = CxxName(mangled: mangled + rest)?.short
      #expect(found == names.joined(separator: "::"), "seed \(seed): \(mangled)\(rest)")
    }
    for name in ["_Z", "_ZN", "_ZNK", "_ZX3abc", "_ZL0", "_ZN4abc", "_Z12_GLOBAL__N_1"] {
      #expect(CxxName(mangled: name) == nil, "\(name)")
    }
    let many = String(repeating: "1a", count: 20)
    #expect(CxxName(mangled: "_ZN" + many)?.short.split(separator: ":").count == 16)
    // A digit ends before what follows it in ASCII.
    #expect(CxxName(mangled: "_Z2:a")?.short == ":a" && CxxName(mangled: "_Z2/a")?.short == "/a")
    // Through all of the demangling, too: nobody knows what "@" is.
    #expect(demangle("_ZNK4shop5Index4find@").short == "shop::Index::find")
    #expect(demangle("_ZL6helper@").short == "helper")
  }
}

/// Names of Swift that real libraries seldom have.
@Suite struct UnusualSwiftNameTests {
  @Test(arguments: [0, 1, 9, 10, 19, 90, 100]) func numbersOfAnyLengthAreRead(number: Int) {
    let closure = SwiftName(demangled: "closure #\(number) (Swift.Int) -> () in Shop.run() -> ()")
    #expect(closure.short == "closure #\(number) in run()")
    for kind in ["suspend", "await"] {
      let piece = SwiftName(demangled: "(\(number)) \(kind) resume partial function for Shop.run() async -> ()")
      #expect(piece.short == "run()" && piece.function == "Shop.run() async -> ()" && piece.kind == .function)
    }
    let implicit = SwiftName(demangled: "implicit closure #\(number) () -> () in Shop.run() -> ()")
    #expect(implicit.short == "run()" && implicit.function == "Shop.run() -> ()")
  }

  /// What comes before a name may come in any order, and as often as there are reasons.
  @Test(arguments: [
    ("merged ", true, false), ("dynamic ", false, false), ("@nonobjc ", false, false), ("override ", false, false),
    ("(3) suspend resume partial function for ", false, false),
    ("generic specialization <Swift.Int> of ", false, false),
    ("@objc ", false, true), ("partial apply forwarder for ", false, true), ("dispatch thunk of ", false, true),
    ("curry thunk of ", false, true),
    ("vtable thunk for Shop.Base.go(_: Swift.Int) -> () dispatching to ", false, true),
  ])
  func variantsOfVariantsAreThatFunction(head: String, isMerged: Bool, isThunk: Bool) {
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
  func typesOfWhatIsMadeForThemAreShort(type: String, short: String) {
    #expect(SwiftName(demangled: "type metadata accessor for \(type)").short == "type metadata of \(short)")
  }

  @Test(arguments: [
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 0, "for"),
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 1, "argument 2"),
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 2, "with"),
    ("Shop.run(for: Swift.Int, _: Swift.Int, with: Swift.Int) -> ()", 3, "argument 4"),
  ])
  func defaultsHaveTheLabelOfTheirArgument(function: String, number: Int, label: String) {
    let name = SwiftName(demangled: "default argument \(number) of \(function)")
    #expect(name.short == "default of \(label) in run(for:_:with:)")
    #expect(name.function == "default argument \(number) of \(function)")
    let closure = SwiftName(demangled: "closure #1 () -> () in default argument \(number) of \(function)")
    #expect(closure.short == "closure #1 in default of \(label) in run(for:_:with:)")
  }
}

/// Names of Rust that are put together here by its grammar (RFC 2603), as the binutils read them.
@Suite(.ownThread) struct GeneratedRustNameTests {
  private struct Generator {
    var random: SplitMix
    /// What was written, without "_R".
    var text = ""
    /// Where paths and types begin that may be referred to.
    private var paths: [Int] = []
    private var types: [Int] = []
    private var isBound = false

    init(_ random: SplitMix) { self.random = random }

    private mutating func chance(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    private mutating func base62(_ value: Int) {
      if value > 0 {
        let digits = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        var (rest, number) = (value - 1, "")
        repeat {
          number = String(digits[rest % 62]) + number
          rest /= 62
        } while rest > 0
        text += number
      }
      text += "_"
    }

    private mutating func disambiguator() {
      guard chance(3) else { return }
      text += "s"
      base62([0, 1, 9, 10, 35, 36, 61, 62, 63, 4000, 1 << 40].randomElement(using: &random) ?? 0)
    }

    private mutating func identifier() {
      disambiguator()
      let name = ["shop", "Index", "x", "_y", "7up", "find_all", "e\(text.count)"].randomElement(using: &random) ?? "x"
      text += "\(name.utf8.count)\(name.first?.isLetter == true ? "" : "_")\(name)"
    }

    private mutating func back(_ places: [Int]) -> Bool {
      guard let place = places.randomElement(using: &random), chance(3) else { return false }
      text += "B"
      base62(place)
      return true
    }

    mutating func path(_ depth: Int = 0, isType: Bool = false) {
      if back(paths) { return }
      let start = text.count
      switch depth > 4 ? 0 : Int.random(in: 0..<10, using: &random) {
      case 0:
        text += "C"
        identifier()
      case 1:
        text += "M"
        disambiguator()
        path(depth + 1)
        type(depth + 1)
      case 2:
        text += "X"
        disambiguator()
        path(depth + 1)
        type(depth + 1)
        path(depth + 1)
      case 3:
        text += "Y"
        type(depth + 1)
        path(depth + 1)
      case 4, 5:
        text += "I"
        path(depth + 1)
        for _ in 0..<Int.random(in: 0...3, using: &random) { argument(depth + 1) }
        text += "E"
      case 6:
        text += "NC"
        path(depth + 1)
        disambiguator()
        text += "0"
      case 7:
        text += "N" + (chance(2) ? "S" : "Q")
        path(depth + 1)
        identifier()
      default:
        text += "N" + (chance(2) ? "v" : "t")
        path(depth + 1)
        identifier()
      }
      if !isBound { paths.append(start) }
    }

    private mutating func argument(_ depth: Int) {
      switch Int.random(in: 0..<6, using: &random) {
      case 0: text += "L_"
      case 1:
        text += "K"
        constant()
      default: type(depth)
      }
    }

    private mutating func constant() {
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        text += ["h", "t", "m", "y", "o", "j"].randomElement(using: &random) ?? "h"
        number()
      case 1:
        text += (["a", "s", "l", "x", "n", "i"].randomElement(using: &random) ?? "a") + (chance(2) ? "n" : "")
        number()
      case 2: text += chance(2) ? "b0_" : "b1_"
      default: text += "p"
      }
    }

    private mutating func number() {
      let bits = random.next() >> UInt64.random(in: 0...63, using: &random)
      text += String(bits, radix: 16) + "_"
    }

    mutating func type(_ depth: Int) {
      if back(types) { return }
      let start = text.count
      switch depth > 4 ? 0 : Int.random(in: 0..<12, using: &random) {
      case 0, 1: text += "abcdefhijlmnostuvxyzp".randomElement(using: &random).map { String($0) } ?? "u"
      case 2:
        text += "A"
        type(depth + 1)
        text += "j"
        number()
      case 3:
        text += "S"
        type(depth + 1)
      case 4:
        text += "T"
        for _ in 0..<Int.random(in: 0...3, using: &random) { type(depth + 1) }
        text += "E"
      case 5:
        text += chance(2) ? "R" : "Q"
        if chance(2) { text += "L_" }
        type(depth + 1)
      case 6:
        text += chance(2) ? "P" : "O"
        type(depth + 1)
      case 7: function(depth)
      case 8: object(depth)
      default: path(depth + 1, isType: true)
      }
      if !isBound { types.append(start) }
    }

    private mutating func function(_ depth: Int) {
      text += "F"
      let outer = isBound
      let binds = !isBound && chance(2)
      var lifetimes = 0
      if binds {
        lifetimes = Int.random(in: 1...28, using: &random)
        text += "G"
        base62(lifetimes - 1)
        isBound = true
      }
      if chance(3) { text += "U" }
      if chance(3) { text += "K" + (chance(2) ? "C" : "15vectorcall_copy") }
      for _ in 0..<Int.random(in: 0...2, using: &random) {
        if binds {
          text += "RL"
          base62(Int.random(in: 1...lifetimes, using: &random))
        }
        type(depth + 1)
      }
      text += "E"
      if chance(2) { text += "u" } else { type(depth + 1) }
      isBound = outer
    }

    private mutating func object(_ depth: Int) {
      text += "D"
      for _ in 0..<Int.random(in: 1...2, using: &random) {
        text += "N" + "t"
        path(depth + 1)
        identifier()
        for _ in 0..<Int.random(in: 0...2, using: &random) {
          text += "p5Item\(Int.random(in: 0...9, using: &random))"
          type(depth + 1)
        }
      }
      text += "EL_"
    }
  }

  @Test func namesOfTheGrammarAreThoseOfTheBinutils() throws {
    let seed = UInt64.random(in: 0...(.max))
    let random = SplitMix(seed)
    let names = (0..<1500 as Range<UInt64>)
      .map { number -> String in
        var generator = Generator(random.derived(number))
        generator.path()
        return "_R" + generator.text
      }
      .filter { $0.utf8.count < 400 }
    let child = try ChildProcess("/usr/bin/c++filt", ["-i"], input: Data(names.joined(separator: "\n").utf8))
    let expected = child.output.split(separator: "\n").map(String.init)
    try #require(expected.count == names.count)
    var read = 0
    for (name, full) in zip(names, expected) where full != name {
      read += 1
      #expect(RustName(name)?.full == full, "seed \(seed): \(name)")
    }
    #expect(read > 1000)
  }

  /// What is in each other without end is no name, however it is made.
  @Test(arguments: [
    ("INvC1a1f", "S", "a", "", "E"), ("INvC1a1f", "P", "a", "", "E"), ("INvC1a1f", "O", "a", "", "E"),
    ("INvC1a1f", "R", "a", "", "E"), ("INvC1a1f", "QL_", "a", "", "E"), ("INvC1a1f", "T", "a", "E", "E"),
    ("INvC1a1f", "A", "a", "j1_", "E"), ("INvC1a1f", "FE", "a", "", "E"), ("INvC1a1f", "F", "a", "Eu", "E"),
    ("INvC1a1fK", "R", "h1_", "", "E"), ("INvC1a1fK", "Q", "h1_", "", "E"), ("INvC1a1fK", "A", "h1_", "E", "E"),
    ("INvC1a1fK", "T", "h1_", "E", "E"), ("", "Nv", "C1a", "1b", ""), ("", "I", "C1a", "E", ""),
    ("", "MC1a", "a", "", ""), ("", "XC1a", "a", "C1a", ""), ("", "Y", "a", "C1a", ""),
  ])
  func depthHasABound(head: String, open: String, inner: String, close: String, tail: String) {
    func name(_ depth: Int) -> RustName? {
      func repeated(_ text: String) -> String { String(repeating: text, count: depth) }
      return RustName("_R" + head + repeated(open) + inner + repeated(close) + tail)
    }
    #expect(name(20) != nil && name(70) == nil && name(5000) == nil)
  }

  /// Each level refers to the one before twice: read to the end they would be a million million pieces.
  @Test(arguments: [("INvC1a1f", "T", "E", "E"), ("INvC1a1f", "Y", "", "E"), ("INvC1a1fK", "A", "E", "E")])
  func referencesToReferencesHaveABudget(head: String, open: String, close: String, tail: String) {
    let digits = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    func name(_ levels: Int) -> String {
      var text = head
      var before = text.count
      text += open == "Y" ? "C1b" : open == "A" ? "h1_" : "a"
      for _ in 0..<levels {
        let start = text.count + (open == "A" ? 1 : 0)
        let place =
          "B" + (before < 63 ? "\(digits[before - 1])_" : "\(digits[(before - 1) / 62])\(digits[(before - 1) % 62])_")
        text += (open == "A" ? "K" : "") + open + place + place + close
        before = start
      }
      return "_R" + text + tail
    }
    #expect(RustName(name(3)) != nil && RustName(name(40)) == nil)
  }

  /// Letters past ASCII (RFC 3492), written here and read back.
  @Test func identifiersPastASCIIAreReadBack() {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<500 {
      let scalars = (0..<Int.random(in: 1...20, using: &random))
        .map { _ -> UInt32 in
          switch Int.random(in: 0..<4, using: &random) {
          case 0: return UInt32.random(in: 0xa1...0x17f, using: &random)
          case 1: return UInt32.random(in: 0x4e00...0x9fff, using: &random)
          case 2: return UInt32.random(in: 0x1_0000...0x1_f9ff, using: &random)
          default: return UInt32.random(in: 0x61...0x7a, using: &random)
          }
        }
      guard scalars.contains(where: { $0 >= 0x80 }) else { continue }
      var name = ""
      name.unicodeScalars.append(contentsOf: scalars.compactMap(UnicodeScalar.init))
      let text = punycode(scalars.map { Int($0) })
      #expect(
        RustName("_RNvC1au\(text.utf8.count)_\(text)")?.short.unicodeScalars.elementsEqual("a::\(name)".unicodeScalars)
          == true,
        "seed \(seed): \(text)"
      )
    }
  }

  /// The encoder of RFC 3492, 6.3, with an underscore for the hyphen.
  private func punycode(_ scalars: [Int]) -> String {
    var output = scalars.filter { $0 < 0x80 }.map { Character(UnicodeScalar(UInt8($0))) }
    var handled = output.count
    let basic = handled
    if basic > 0 { output.append("_") }
    var (next, delta, bias) = (128, 0, 72)
    while handled < scalars.count {
      let lowest = scalars.filter { $0 >= next }.min() ?? 0
      delta += (lowest - next) * (handled + 1)
      next = lowest
      for scalar in scalars {
        if scalar < next { delta += 1 }
        guard scalar == next else { continue }
        var (rest, step) = (delta, 36)
        while true {
          let threshold = step <= bias ? 1 : step >= bias + 26 ? 26 : step - bias
          if rest < threshold { break }
          output.append(digit(threshold + (rest - threshold) % (36 - threshold)))
          rest = (rest - threshold) / (36 - threshold)
          step += 36
        }
        output.append(digit(rest))
        delta = handled == basic ? delta / 700 : delta / 2
        delta += delta / (handled + 1)
        bias = 0
        while delta > 455 {
          delta /= 35
          bias += 36
        }
        bias += 36 * delta / (delta + 38)
        delta = 0
        handled += 1
      }
      delta += 1
      next += 1
    }
    return String(output)
  }

  private func digit(_ value: Int) -> Character {
    Character(UnicodeScalar(UInt8(value < 26 ? 97 + value : 22 + value)))
  }
}
