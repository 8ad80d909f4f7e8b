extension String {
    /// The text, if it can be the reason of an outcome, which becomes a metric's label; nil when it does not look like
    /// a vendor's code.
    ///
    /// It must be 1 to 64 ASCII letters, digits, `_` and `-`: a vendor's free text must not make labels grow without
    /// bound.
    package var asReasonLabel: String? {
        let isLabel =
            (1...64).contains(utf8.count)
            && utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
        return isLabel ? self : nil
    }
}
