/// The blinking of an Android device's light, in the form that Google's and Huawei's services share.
///
/// Sources: Firebase, REST resource `projects.messages`, `LightSettings`; Huawei, Push Kit, `LightSettings`; both read
/// 2026-08.
public struct AndroidLight: Sendable, Hashable {
    /// The share of red, 0 to 1.
    public var red: Double
    /// The share of green, 0 to 1.
    public var green: Double
    /// The share of blue, 0 to 1.
    public var blue: Double
    /// The opacity, 0 to 1.
    public var alpha: Double
    /// The time it is on in each blink.
    public var on: Duration
    /// The time it is off in each blink.
    public var off: Duration

    /// Makes a light.
    public init(red: Double, green: Double, blue: Double, alpha: Double = 1, on: Duration, off: Duration) {
        self.red = red
        self.green = green
        self.blue = blue
        self.alpha = alpha
        self.on = on
        self.off = off
    }

    /// The vendors' `light_settings`.
    package var value: JSONValue {
        [
            "color": ["red": .number(red), "green": .number(green), "blue": .number(blue), "alpha": .number(alpha)],
            "light_on_duration": .span(on), "light_off_duration": .span(off),
        ]
    }
}
