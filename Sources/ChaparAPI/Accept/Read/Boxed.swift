/// An optional value behind a pointer: its place in a structure is 8 bytes.
///
/// Use it for large fields that few requests have. The structure that holds the fields, a notification's draft, is
/// copied several times for each request.
@propertyWrapper
package struct Boxed<Value: Sendable>: Sendable {
    private indirect enum Box: Sendable {
        case value(Value)
    }

    private var box: Box?

    /// Makes a box.
    package init(wrappedValue: Value?) { box = wrappedValue.map(Box.value) }

    /// The value.
    package var wrappedValue: Value? {
        get { if case .value(let value)? = box { value } else { nil } }
        set { box = newValue.map(Box.value) }
    }
}
