/// A setting of HTTP/2, by its number on the wire (RFC 9113, section 6.5.2).
package struct HTTP2Setting: Hashable, Sendable {
    package let id: UInt16
    package let value: UInt32

    package init(id: UInt16, value: UInt32) {
        self.id = id
        self.value = value
    }

    package static func maximumStreams(_ value: Int) -> HTTP2Setting {
        HTTP2Setting(id: 3, value: UInt32(clamping: value))
    }

    package static func initialWindow(_ value: Int) -> HTTP2Setting {
        HTTP2Setting(id: 4, value: UInt32(clamping: value))
    }
}
