//! Prints every layout: `structure size N`, then `structure.field N` for its fields.

fn main() {
    for layout in abi::LAYOUTS {
        println!("{} size {}", layout.name, layout.size);
        for (field, offset) in layout.fields {
            println!("{}.{field} {offset}", layout.name);
        }
    }
}
