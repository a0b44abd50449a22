import NativeWork

extension Kind {
  static let native = [
    Kind("rank_goods", with: ["compare_goods"], { rank_goods($0) }), Kind("copy_pages", { copy_pages($0) }),
    Kind("swift_parse_prices", { swift_parse_prices($0) }), Kind("poll_nothing", { poll_nothing($0) }),
    Kind("multiplyMatrices", with: ["enter_multiply_matrices", "Matrix"], { enter_multiply_matrices($0) }),
    Kind("throwRefusals", with: ["enter_throw_refusals", "refuse", "Refusal"], { enter_throw_refusals($0) }),
    Kind("sortShelves", with: ["enter_sort_shelves", "Shelf"], { enter_sort_shelves($0) }),
    Kind("indexTitles", with: ["enter_index_titles"], { enter_index_titles($0) }),
    Kind("waitAtGate", with: ["enter_wait_at_gate", "Gate"], { enter_wait_at_gate($0) }),
    Kind("drawShapes", with: ["enter_draw_shapes", "Shape", "Disc", "Tile"], { enter_draw_shapes($0) }),
  ]
}
