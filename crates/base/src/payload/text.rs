//! Text: words drawn by rank with Zipf's law (the n-th word 1/n as often as the first), in sentences and lines.

use std::sync::LazyLock;

use super::{BLOCK, Draws};

/// By falling frequency, roughly as in English prose.
const WORDS: &str = "the of and to a in is that for it as was with be by on not he his but at are this have from or had \
    an they which one you were her all she there would their we him been has when who will more no if out so said what \
    up its about into than them can only other new some could time these two may then do first any my now such like our \
    over man me even most made after also did many before must through back years where much your way well down should \
    because each just those people how too little state good very make world still own see men work long get here \
    between both life being under never day same another know while last might us great old year off come since against \
    go came right used take three himself few house use during without again place around however home small found \
    thought went say part once general high upon school every does got united left number course war until always away \
    something fact though water less public put thing almost hand enough far took head yet government system better \
    set told nothing night end why called eyes find going look asked later knew point next program city business give \
    group toward young days let room president side social given present several order national possible rather second \
    face per among form important often things looked early white case large big need four within felt along children \
    saw best church ever least power development light seemed thing family interest want members mind country area \
    others done turned although open god service certain kind problem began different door thus help sense means whole \
    matter checkpoint restore storage bandwidth latency throughput cluster gradient optimizer parameter tensor";

/// Draws that choose a word: this many equally likely slots.
const SLOTS: usize = 1 << 12;

/// Room for the longest word; whole arrays are copied, which costs less than copies of many lengths.
const WIDTH: usize = 16;

/// A word and its length.
type Word = ([u8; WIDTH], usize);

/// For each slot its word; a word has as many slots as its rank earns.
static BY_SLOT: LazyLock<Box<[Word; SLOTS]>> = LazyLock::new(|| {
    let words: Vec<&[u8]> = WORDS.split_ascii_whitespace().map(str::as_bytes).collect();
    let total: f64 = (1..=words.len()).map(|rank| 1.0 / rank as f64).sum();
    let mut table = Box::new([([0; WIDTH], 0); SLOTS]);
    let (mut slot, mut share) = (0, 0.0);
    for (index, word) in words.iter().enumerate() {
        share += 1.0 / (index + 1) as f64 / total;
        let end = (share * SLOTS as f64).round() as usize;
        for entry in &mut table[slot..end] {
            entry.0[..word.len()].copy_from_slice(word);
            entry.1 = word.len();
        }
        slot = end;
    }
    table
});

/// What may follow a word, by six bits of its draw: one word in sixteen ends a sentence, one sentence in four a line;
/// one word in sixteen has a comma.
static MARKS: [(&[u8; 2], usize); 64] = {
    let mut marks = [(b"  ", 1); 64];
    let mut line = 0;
    while line < 4 {
        marks[16 * line] = if line == 0 { (b".\n", 2) } else { (b". ", 2) };
        marks[16 * line + 1] = (b", ", 2);
        line += 1;
    }
    marks
};

/// Words up to the end of the block, where the last one is cut.
pub fn fill(draws: &mut Draws, out: &mut [u8; BLOCK]) {
    let by_slot = &**BY_SLOT;
    let mut text = [0; BLOCK + WIDTH + 2];
    let mut at = 0;
    let mut is_start = true;
    while at < BLOCK {
        let bits = draws.next();
        let (word, len) = &by_slot[bits as usize % SLOTS];
        text[at..at + WIDTH].copy_from_slice(word);
        text[at] ^= u8::from(is_start) << 5; // to upper case
        at += len;
        let mark = (bits >> 32) as usize % MARKS.len();
        is_start = mark.is_multiple_of(16);
        text[at..at + 2].copy_from_slice(MARKS[mark].0);
        at += MARKS[mark].1;
    }
    out.copy_from_slice(&text[..BLOCK]);
}

#[cfg(test)]
mod tests {
    use super::super::{PayloadKind, fill};

    #[test]
    fn reads_like_text() {
        let mut data = vec![0; 1 << 20];
        fill(PayloadKind::Text, 5, 0, &mut data);
        let text = String::from_utf8(data).unwrap();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let count = |word: &str| words.iter().filter(|w| w.eq_ignore_ascii_case(word)).count() as f64;
        let (first, second, eighth) = (count("the"), count("of"), count("that"));
        assert!((1.8..2.2).contains(&(first / second)), "{first} {second}");
        assert!((7.0..9.0).contains(&(first / eighth)), "{first} {eighth}");
        assert!(text.lines().count() > 2000 && text.contains(". ") && text.contains(", "));
    }
}
