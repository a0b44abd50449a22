import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct CodeOwnerTests {
  private func frame(_ module: String, raw: String? = "f", swift: String? = nil, function: String? = "f")
    -> ResolvedFrame
  {
    ResolvedFrame(function: function, rawName: raw, swiftModule: swift, module: module, address: .file(FileAddress(0)))
  }

  @Test(arguments: [
    "/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libz.so.1", "/usr/lib/libfoo.so",
    "/lib64/ld-linux-x86-64.so.2",
    "/opt/app/lib/libswiftCore.so", "/opt/app/libFoundationEssentials.so", "/opt/app/libdispatch.so", "[vdso]", "",
  ])
  func systemModules(path: String) { #expect(!CodeOwner.isApplication(frame(path))) }

  @Test(arguments: [
    "/opt/app/shop", "/usr/bin/shop", "/usr/lib/shop/plugin.so", "/usr/local/lib/libshop.so", "/opt/app/libshop.so",
  ])
  func applicationModules(path: String) { #expect(CodeOwner.isApplication(frame(path))) }

  @Test func swiftFunctionsBelongToTheirModule() {
    #expect(!CodeOwner.isApplication(frame("/opt/app/shop", raw: "$sSa6appendyyxnF", swift: "Swift")))
    #expect(!CodeOwner.isApplication(frame("/opt/app/shop", raw: "$s7Culprit3foo", swift: "Culprit")))
    #expect(!CodeOwner.isApplication(frame("/opt/app/shop", raw: "$s12CulpritBlame3foo", swift: "CulpritBlame")))
    #expect(CodeOwner.isApplication(frame("/opt/app/shop", raw: "$s4Shop3foo", swift: "Shop")))
    #expect(!CodeOwner.isApplication(frame("/opt/app/shop", raw: "$sSSIegg_TR", swift: nil)))
  }

  @Test func excludesEntryPointsAndStaticRuntime() {
    for name in [
      "main", "_start", "shop_main", "swift_retain", "_dispatch_call_block_and_release", "__CFRunLoopRun", ".plt",
      "_ZSt4sortIPiEvT_S1_", "__tsan_read8", "___interceptor_nanosleep", "__asan_memcpy",
    ] {
      #expect(!CodeOwner.isApplication(frame("/opt/app/shop", raw: name, function: name)))
    }
    for name in ["main_loop", "worker_main", "dispatch_request", "observer_notify", "_ZN4shop4findEv"] {
      #expect(CodeOwner.isApplication(frame("/opt/app/shop", raw: name, function: name)))
    }
    #expect(CodeOwner.isApplication(frame("/opt/app/libswiftly.so", raw: "f")))
    #expect(CodeOwner.isApplication(frame("/opt/app/shop", raw: nil, function: nil)))
  }
}
