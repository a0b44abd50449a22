import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct WorkKindTests {
  private func frame(_ function: String, _ symbol: String, _ module: String? = nil, owner: String = "/usr/lib/a.so")
    -> ResolvedFrame
  {
    ResolvedFrame(
      function: function,
      rawName: symbol,
      swiftModule: module,
      module: owner,
      address: .file(FileAddress(UInt64(symbol.utf8.count)))
    )
  }

  @Test(
    arguments: [
      ("Dictionary.subscript.getter", ["Dictionary", "subscript"], "getter", "", false),
      ("closure #1 in Array.sort(by:)", ["Array"], "sort", "by:", true),
      ("std::vector::operator[]", ["std", "vector"], "operator[]", "", false),
      ("print(_:separator:terminator:)", [], "print", "_:separator:terminator:", false),
      ("static Key.== infix", ["static Key"], "== infix", "", false),
      ("operator()", [], "operator", "", false), ("qsort", [], "qsort", "", false),
    ] as [(String, [String], String, String, Bool)]
  )
  func parsesFunctionPaths(function: String, types: [String], name: String, labels: String, isClosure: Bool) throws {
    let path = try #require(FunctionPath(function))
    #expect(path.types == types && path.name == name && path.labels == labels && path.isClosure == isClosure)
  }

  @Test(
    arguments: [
      ("Regex.firstMatch(in:)", "_StringProcessing", Work.Kind.regularExpressions),
      ("StringProtocol._split(separator:maxSplits:omittingEmptySubsequences:)", "_StringProcessing", .text),
      ("Collection.firstRange(of:)", "_StringProcessing", .text),
      ("Data.append(_:)", "FoundationEssentials", .copying),
      ("Data.base64EncodedString(options:)", "FoundationEssentials", .codable),
      ("Data.init(base64Encoded:options:)", "FoundationEssentials", .codable),
      ("Data.init(contentsOf:options:)", "FoundationEssentials", .fileAccess),
      ("Data.init(count:)", "FoundationEssentials", nil), ("Data.index(after:)", "FoundationEssentials", nil),
      ("JSONDecoder.decode(_:from:)", "FoundationEssentials", .json), ("Array.encode(to:)", "Swift", .codable),
      ("MutableCollection.sort(by:)", "Swift", .sorting),
      ("Dictionary.merge(_:uniquingKeysWith:)", "Swift", .collections),
      ("String.append(_:)", "Swift", .text), ("Array.append(_:)", "Swift", nil),
      ("Unicode.UTF8.encode(_:)", "Swift", .text), ("_NativeSet.insertNew(_:at:isUnique:)", "Swift", .collections),
      ("DateFormatter.string(from:)", "Foundation", .formatting), ("Sort.run()", "Shop", nil),
    ] as [(String, String, Work.Kind?)]
  )
  func classifiesSwiftFunctions(function: String, module: String, kind: Work.Kind?) {
    let symbol = "$s4DataV12_ArrayBufferJSON4sort_with_everything_in_its_signature"
    #expect(WorkKinds.kind(of: frame(function, symbol, module)) == kind)
  }

  @Test(
    arguments: [
      ("std::sort", Work.Kind.sorting), ("std::__introsort_loop", .sorting), ("std::basic_string::append", .text),
      ("std::_Rb_tree::find", .collections), ("std::regex_search", .regularExpressions),
      ("operator new", .allocation), ("std::__new_allocator::allocate", .allocation),
      ("std::__new_allocator::destroy", .deallocation), ("std::allocator_traits::destroy", .deallocation),
      ("std::__new_allocator::max_size", nil), ("nlohmann::basic_json::parse", .json), ("codec::encode", nil),
      ("geometry::remap", nil),
    ] as [(String, Work.Kind?)]
  )
  func classifiesCxxFunctions(function: String, kind: Work.Kind?) {
    let symbol = "_ZN4with3mapI4jsonNSt12basic_stringE4sort6formatEv"
    #expect(WorkKinds.kind(of: frame(function, symbol)) == kind)
  }

  private func deinitializers(_ stacks: [([(String, String)], Int)]) -> Bool {
    Deallocation.deinitializersCompute(
      stacks.map { names, count in
        let frames = names.map { name, symbol in
          WeightedStack.Frame(frame(name, symbol, "Shop", owner: "/opt/shop"), owner: .own)
        }
        return WeightedStack(frames: frames, time: .seconds(count))
      }
    )
  }

  @Test func distinguishesComputingDeinitializers() {
    let own = [("load()", "$s4Shop4loadyyF"), ("Cart.deinit", "$s4Shop4CartCfd")]
    let runtime = own + [("swift_release", "swift_release"), ("free", "free")]
    #expect(deinitializers([(own, 9), (runtime, 1)]))
    #expect(!deinitializers([(own, 2), (runtime, 8)]) && !deinitializers([]))
    let frames = own.map { name, symbol in
      WeightedStack.Frame(frame(name, symbol, "Shop", owner: "/opt/shop"), owner: .own)
    }
    #expect(WorkKinds().work(frames, deinitializersCompute: true) == .ownCode)
    #expect(WorkKinds().work(frames) == .kind(.deallocation))
  }

  @Test func onlyLibraryFunctionsFreeMemory() {
    #expect(Deallocation.isFreeing(frame("std::_Rb_tree::_M_erase", "_ZNSt8_Rb_treeE8_M_eraseE")))
    #expect(Deallocation.isFreeing(frame("operator delete", "_ZdlPv")))
    #expect(!Deallocation.isFreeing(frame("shop::Order::destroy", "_ZN4shop5Order7destroyEv")))
  }
}
