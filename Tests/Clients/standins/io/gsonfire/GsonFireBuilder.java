package io.gsonfire;

import com.google.gson.GsonBuilder;

/** Stands in for gson-fire, which Debian does not have: the generated client only asks it for a builder. */
public class GsonFireBuilder {
    public GsonBuilder createGsonBuilder() {
        return new GsonBuilder();
    }
}
