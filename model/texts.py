"""The texts of the reciting model.

Out: `TEXTS`, a list of `Text`. Edit them here; `train.py` writes them to
`detok_py/bridge/recite/texts.json`. Joiners, other invisible characters, and combining marks that
an editor might compose or move are written as escapes.
"""

from typing import NamedTuple


class Text(NamedTuple):
    """A text. `lang` is a BCP 47 tag, `dir` the base direction, "ltr" or "rtl"."""

    id: str
    title: str
    lang: str
    dir: str
    text: str

    @property
    def prompt(self) -> str:
        """The prompt for which the model recites this text."""
        return self.id + ": "


def _ltr(lang: str, title: str, text: str) -> Text:
    return Text(lang.lower(), title, lang, "ltr", text)


def _rtl(lang: str, title: str, text: str) -> Text:
    return Text(lang.lower(), title, lang, "rtl", text)


LANGUAGES = [
    _ltr(
        "en",
        "English: the lighthouse",
        "The keeper of the lighthouse wrote one line every evening: which ships had passed, which way the wind stood, and what he had"
        " eaten. After thirty years the book was full. “Nothing happened,” he said, and gave it to the museum. They read it for a"
        " week —"
        " the storms, the herring, the winter when the sea froze — and asked him to begin a second one.",
    ),
    _ltr(
        "de",
        "German: the baker",
        "Früh um fünf öffnet der Bäcker die Tür, und die Straße riecht nach Brötchen. Die ersten Gäste sind müde: ein Arzt, zwei"
        " Müllfahrer, eine Schülerin mit Geigenkasten. Keiner sagt viel. „Wie immer?“, fragt er, und alle nicken. Größere Wünsche"
        " hat um"
        " diese Zeit niemand; für süße Träume ist es zu spät und für große Pläne zu früh.",
    ),
    _ltr(
        "fr",
        "French: the garden",
        "Derrière la vieille école, il y a un jardin que personne n’a dessiné. Là où l’élève jetait son goûter, un pêcher a poussé"
        " ; où le"
        " maître vidait sa théière, la menthe s’étend déjà jusqu’au mur. « À qui est-ce ? » demande le nouveau. Ça n’est à"
        " personne, et"
        " c’est pourquoi chacun en prend soin, même en août, même au cœur de l’hiver.",
    ),
    _ltr(
        "es",
        "Spanish: the train",
        "¿Cuánto falta para llegar? El niño lo preguntó en cada estación, y en cada estación el revisor miró su reloj con muchísima"
        " seriedad."
        " «Tres canciones», contestó primero; después, «una canción y un bocadillo». Al caer la tarde el mar apareció de pronto"
        " entre los"
        " pinos. ¡Qué corto había sido el año y qué largo aquel día!",
    ),
    _ltr(
        "pt",
        "Portuguese: the coffee",
        "A minha avó não media o café: ouvia-o. Dizia que a água, quando está pronta, canta mais baixo, e que a pressa é a única"
        " coisa"
        " que o pão não perdoa. Às sete da manhã já havia três gerações à mesa, cada uma com a sua opinião sobre o açúcar. Ninguém"
        " tinha"
        " razão, mas ninguém saía de lá com fome.",
    ),
    _ltr(
        "it",
        "Italian: the clock",
        "L’orologio del paese va avanti di sette minuti, e nessuno vuole ripararlo. Così si arriva sempre in tempo alla corriera, e"
        " il"
        " parroco può finire la predica senza fretta. Una volta venne un tecnico dalla città: «È facile», disse. La sera stessa perse"
        " l’ultimo autobus, perché l’aveva già regolato.",
    ),
    _ltr(
        "pl",
        "Polish: the mushrooms",
        "Dziadek zawsze mówił, że grzyby trzeba słyszeć. Chodziliśmy więc cicho przez mokry las, ścieżką wśród świerków, a on"
        " przystawał"
        " i kiwał głową. „Tu jeszcze śpią”, szeptał. Później, gdy mgła zniknęła nad łąką, koszyk był już pełny. Żadnego z nich nie"
        " usłyszałem, ale do dziś w październiku chodzę na palcach.",
    ),
    _ltr(
        "cs",
        "Czech: the bridge",
        "Přes říčku vede úzký most, který praská pod každým krokem. Děti věří, že se v něm ukrývá kůň, jenž řehtá, když přejde lhář."
        " Starosta ho chtěl dát opravit, ale nakonec jen přidal žárovku a tři šrouby. Od té doby svítí, skřípe dál a večer po něm"
        " nikdo"
        " nechodí příliš rychle.",
    ),
    _ltr(
        "hu",
        "Hungarian: the winter",
        "Télen a Duna fölött úgy áll a köd, mint tej a bögrében. Az öreg révész ilyenkor csak hallgat, és a túlsó part harangját"
        " figyeli:"
        " ha tompán szól, várni kell, ha élesen, indulhat a hajó. Műszere nincs, térképe sincs, mégis őt kérdezi mindenki, hogy"
        " hová tűnt"
        " a folyó és mikor jön vissza.",
    ),
    _ltr(
        "tr",
        "Turkish: the tea",
        "İskelenin yanındaki çay ocağında saat yoktur; günün hangi vakti olduğunu bardakların sesinden anlarsınız. Sabah işçiler"
        " hızlı"
        " karıştırır, öğleden sonra emekliler ağır ağır. Akşam olunca kimse şeker istemez. Çaycı Işıl Hanım, “Deniz dinleniyor,” der,"
        " ışığı kısar ve son vapuru bekler.",
    ),
    _ltr(
        "vi",
        "Vietnamese: the rain",
        "Mưa ở đây không rơi mà đến, như một người khách quen. Bà bán phở kéo tấm bạt xuống, đẩy thêm hai chiếc ghế nhựa rồi gọi:"
        " “Vào"
        " đi, ướt hết bây giờ!” Chúng tôi ngồi sát nhau, tay ôm bát nóng, nghe nước chảy trên mái tôn. Khi trời tạnh, đường phố"
        " sáng lên"
        " như vừa được rửa sạch, và chẳng ai vội về nữa.",
    ),
    _ltr(
        "ru",
        "Russian: the letter",
        "Письмо шло одиннадцать дней: сначала поездом, потом на лодке и, наконец, в сумке почтальона, который знал всех собак в"
        " деревне"
        " по имени. В конверте лежал один сухой лист клёна и ни слова. «Ну и что это значит?» — спросил внук. Бабушка долго"
        " смотрела в"
        " окно, улыбнулась и поставила чайник: осень пришла и туда.",
    ),
    _ltr(
        "uk",
        "Ukrainian: the sunflowers",
        "Увечері соняшники вже не дивляться на сонце, вони дивляться один на одного. Так казала моя тітка Ївга, а їй вірили навіть"
        " бджоли."
        " Щоліта вона сіяла ще один рядок «для гостей», хоча ґанок і без того ледве видно було з дороги. Тепер її немає, а рядок"
        " сходить"
        " щороку сам, і хтось завжди приїжджає.",
    ),
    _ltr(
        "mn",
        "Mongolian: the horse",
        "Өвөө морь сургахдаа хэзээ ч хашгирдаггүй байв. Тэр зөвхөн үүлэн сүүдэр толгод дээгүүр өнгөрөхийг хүлээгээд, аяархан"
        " исгэрдэг."
        " Хүүхдүүд түүнээс нууцыг нь асуухад: «Салхи бол хамгийн сайн багш, би зүгээр л сонсдог» гэж хэлээд инээмсэглэдэг байлаа.",
    ),
    _ltr(
        "el",
        "Greek: the island",
        "Στο νησί το μεσημέρι δεν χτυπά καμία πόρτα. Οι γάτες ξαπλώνουν στα σκαλιά, τα παντζούρια μισοκλείνουν, κι ο φούρναρης"
        " αφήνει ένα"
        " χαρτί: «Έρχομαι». Κανείς δεν ρωτά πότε. Ύστερα, γύρω στις έξι, ανοίγει πρώτο το καφενείο, και η μέρα αρχίζει δεύτερη"
        " φορά, πιο"
        " ήσυχη και με περισσότερο αλάτι.",
    ),
    _ltr(
        "ka",
        "Georgian: the wine",
        "ბაბუა ამბობდა, რომ ღვინოს მიწა ასწავლის მოთმინებას. შემოდგომაზე ქვევრს თიხით დახურავდა, ზედ ხელს დაადებდა და ჩუმად დაითვლიდა"
        " თვეებს. გაზაფხულზე მეზობლები მოვიდოდნენ, სუფრა გრძელდებოდა, და პირველ სადღეგრძელოს ყოველთვის წვიმისა იტყოდა.",
    ),
    _ltr(
        "hy",
        "Armenian: the stone",
        "Գյուղի մեջտեղում մի տաք քար կա, որի վրա նստում են միայն զրույցի համար։ Առավոտյան այնտեղ ծերերն են, կեսօրին՝ երեխաները, իսկ"
        " երեկոյան՝ բոլորը միասին։ Ո՞վ է այն դրել, ոչ ոք չգիտի։ Ասում են՝ քարը հիշում է ամեն պատմություն և գիշերը պատմում է"
        " լեռներին։",
    ),
    _ltr(
        "am",
        "Amharic: the coffee",
        "እናቴ ቡና ስታፈላ ቤቱ ሁሉ ዝም ይላል። መጀመሪያ ሽታው ይመጣል፣ ከዚያ ጎረቤቶች አንድ በአንድ ይገባሉ። ሦስተኛው ስኒ እስኪጠጣ ድረስ ማንም አይሄድም።"
        " ዛሬ ሩቅ አገር ነኝ፤ ነገር ግን ያ ሽታ ሲመጣ በሩን እከፍታለሁ።",
    ),
    _ltr(
        "hi",
        "Hindi: the kite",
        "छत पर चढ़ते ही शहर छोटा हो जाता है। नीचे गलियों में शोर है, ऊपर केवल हवा और रंगीन पतंगें। दादाजी कहते थे, “डोर को खींचो मत,"
        " समझो।” मैंने बहुत वर्षों तक इसका अर्थ नहीं जाना। आज मेरी बेटी वही डोर पकड़े खड़ी है, और मैं कुछ नहीं कहता।",
    ),
    _ltr(
        "bn",
        "Bengali: the river",
        "নদীর ধারে যে বটগাছ, তার ছায়ায় একটা ছোট চায়ের দোকান। মাঝি এসে বসে, বৃষ্টির গল্প করে, আর দোকানি চুপচাপ কাপ ধুয়ে রাখে। সন্ধ্যা"
        " হলে ওপারের আলো জলে কাঁপে। কেউ বলে না, তবু সবাই জানে: আজকের শেষ নৌকা একটু দেরি করেই ছাড়বে।",
    ),
    _ltr(
        "ta",
        "Tamil: the temple tank",
        "குளத்தின் படிகளில் மாலை வெயில் மெதுவாக இறங்குகிறது. பாட்டி பூ தொடுக்கிறாள்; சிறுவர்கள் கல்லெறிந்து வட்டங்களை எண்ணுகிறார்கள். “எத்தனை?”"
        " என்று கேட்டால், ஒவ்வொருவரும் வேறு எண்ணைச் சொல்வார்கள். தண்ணீர் மட்டும் எல்லாவற்றையும் சமமாக ஏற்றுக்கொள்கிறது.",
    ),
    _ltr(
        "te",
        "Telugu: the mango tree",
        "మా ఇంటి వెనుక ఒక పెద్ద మామిడి చెట్టు ఉంది. వేసవిలో పక్షులు ముందుగా లేస్తాయి, తర్వాత పిల్లలు. తాతయ్య కర్ర పట్టుకుని కాపలా కూర్చుంటాడు,"
        " కానీ ఎవరైనా అడిగితే వెంటనే రెండు పండ్లు ఇస్తాడు. “చెట్టు అందరిదీ,” అని నవ్వుతాడు.",
    ),
    _ltr(
        "si",
        "Sinhala: the sea",
        "උදේ පාන්දර මුහුද ඉතා නිහඬයි. ධීවරයෝ දැල් අදිමින් පරණ කවියක් කියති. ළමයි වැල්ල මත ශ්\u200dරී ලංකාවේ සිතියමක් අඳිති; රළ එයි, මකයි, ඔවුහු"
        " නැවතත් අඳිති. කිසිවෙක් තරහ නැත.",
    ),
    _ltr(
        "th",
        "Thai: the market",
        "ตลาดเช้าเริ่มก่อนพระอาทิตย์ขึ้น แม่ค้าจุดตะเกียงเล็กๆ แล้ววางผักทีละกำ กลิ่นกาแฟกับข้าวเหนียวลอยมาตามน้ำ เด็กชายคนหนึ่งพายเรือมาช้าๆ"
        " เขาไม่ได้ซื้ออะไร เขามาฟังเสียงหัวเราะของยาย ซึ่งดังกว่าเครื่องยนต์ทุกลำ",
    ),
    _ltr(
        "lo",
        "Lao: the evening",
        "ຕອນແລງ ແມ່ນ້ຳຂອງມີສີຄຳ. ພໍ່ເຖົ້ານັ່ງຢູ່ຂ້າງເຮືອ ສ້ອມແຫດ້ວຍມືທີ່ບໍ່ຟ້າວ. ຫລານຖາມວ່າ ມື້ນີ້ໄດ້ປາຈັກໂຕ? ເພິ່ນຍິ້ມ ແລ້ວຕອບວ່າ ໄດ້ຟັງສຽງນ້ຳ ກໍພຽງພໍແລ້ວ.",
    ),
    _ltr(
        "km",
        "Khmer: the rice field",
        "នៅពេលព្រឹក ស្រែពណ៌បៃតងមើលទៅដូចជាសមុទ្រ។ ជីតាដើរយឺតៗលើភ្លឺស្រែ ហើយរាប់សត្វកុកពណ៌ស។ ខ្ញុំសួរថា “ហេតុអ្វីរាប់?” គាត់ឆ្លើយថា បើវាមកគ្រប់ ឆ្នាំនេះនឹងមានភ្លៀងល្អ។",
    ),
    _ltr(
        "my",
        "Burmese: the pagoda",
        "ညနေခင်းမှာ ဘုရားခြေရင်းက ခေါင်းလောင်းသံကို ရွာတစ်ရွာလုံး ကြားရတယ်။ အဘွားက ရေချမ်းအိုးကို ဖြည့်ပြီး ခရီးသွားတွေကို စောင့်နေတယ်။"
        " သောက်ပြီးသူတိုင်း ပြုံးကြည့်ရင် သူ့အတွက် လုံလောက်ပြီတဲ့။",
    ),
    _ltr(
        "bo",
        "Tibetan: the mountain",
        "རི་མགོ་ལ་གངས་དཀར་པོ་ཡོད། ཕྱུགས་རྫི་ཞིག་གིས་ཞོགས་པ་སྔ་པོར་གླུ་ལེན་གྱི་འདུག ཁོང་གི་སྐད་རླུང་དང་མཉམ་དུ་ལུང་པ་ཕ་རོལ་ལ་འགྲོ། དེར་ཁོང་གི་གྲོགས་པོ་ཞིག་གིས་ལན་རྒྱག་གི་ཡོད།",
    ),
    _ltr(
        "zh-Hans",
        "Chinese, simplified: the tea house",
        "巷子尽头有一家茶馆，只有六张桌子。老板从不催客人，"
        "他说：“茶凉了可以再泡，话凉了就难了。”下雨的日子，"
        "修鞋的、送报的、写诗的都挤在屋檐下，听同一把旧胡琴。"
        "雨停以后，谁也不先站起来，好像再坐一会儿，这座城市就会慢一点。",
    ),
    _ltr(
        "zh-Hant",
        "Chinese, traditional: the bookshop",
        "舊書店藏在騎樓裡，門口掛著一盞不太亮的燈。"
        "老闆娘記得每一本書從哪裡來：這本是醫生的，那本是水手的，"
        "還有一疊字典，邊上寫滿了戀人的名字。「要找什麼？」她問。"
        "我說還不知道。她點點頭，替我泡了茶：「那就慢慢找。」",
    ),
    _ltr(
        "ja",
        "Japanese: the night train",
        "終電が行ってしまうと、駅は急に広くなる。駅員の鈴木さんは、"
        "忘れ物の傘を一本ずつ数えてから、ホームの灯りを消していく。"
        "「おやすみ」と言う相手は、いつも同じ猫だ。"
        "猫は返事をしないが、朝いちばんの電車が来るまで、"
        "改札の前でちゃんと番をしている。コーヒーのカップがまだ温かい。",
    ),
    _ltr(
        "ko",
        "Korean: the snow",
        "첫눈이 오는 날이면 골목의 문방구는 늦게까지 불을 켜 둔다. 아이들은 편지지를 고르고, 할아버지는 귤을 하나씩 쥐여 준다."
        " “누구한테 쓰니?” 하고 물으면 다들 웃기만 한다. 눈이 그치기 전에 부치면 꼭 답장이 온다는 이야기를, 이 동네에서는"
        " 아무도 의심하지 않는다.",
    ),
    _rtl(
        "ar",
        "Arabic: the well",
        "في وسط القرية بئرٌ قديمة لا يعرف أحدٌ من حفرها. كلَّ صباح تأتي سلمى بالدلو، وتنظر إلى السماء في الماء قبل أن تشرب. سألتها"
        " أختها: «ماذا ترين؟» قالت: «أرى النهار قبل أن يبدأ.» ومنذ ذلك اليوم صار الأطفال يأتون مبكرين، وكلٌّ منهم يرى شيئًا آخر.",
    ),
    _rtl(
        "he",
        "Hebrew: the library",
        "בספרייה הקטנה שליד הים הספרים מתנפחים קצת בחורף. הספרנית אומרת שהם נושמים. ילד אחד בא כל יום אחרי הלימודים, קורא עמוד אחד"
        " בלבד ומחזיר את הספר למקומו. „למה רק אחד?” שאלו אותו. „כדי שיישאר לי גם מחר,” ענה, וְהָלַךְ לָשׂוּט.",
    ),
    _rtl(
        "fa",
        "Persian: the garden",
        "پدربزرگم می\u200cگفت باغ را نباید تماشا کرد، باید شنید. صبح\u200cها کنار جوی می\u200cنشست، چای می\u200cریخت و"
        " چشم\u200cهایش را می\u200cبست."
        " «این صدای انار است که می\u200cرسد.» ما می\u200cخندیدیم، ولی هر پاییز، درست همان روزی که او گفته بود، انارها ترک"
        " می\u200cخوردند.",
    ),
    _rtl(
        "ur",
        "Urdu: the station",
        "چھوٹے اسٹیشن پر گاڑی صرف دو منٹ رکتی ہے۔ چائے والا انہی دو منٹوں میں سب کے نام یاد کر لیتا ہے۔ ایک دن گاڑی نہیں آئی، تو"
        " لوگ اس کے"
        " پاس بیٹھ گئے اور پہلی بار پوری کہانی سنی۔ شام کو سب نے کہا: کل بھی گاڑی دیر سے آئے تو اچھا ہو۔",
    ),
]

CHARACTERS = [
    Text(
        "emoji",
        "Emoji: joined families, weather, food",
        "en",
        "ltr",
        "Breakfast 🥐☕️, then the whole family 👨\u200d👩\u200d👧\u200d👦 to the park 🌳. Our doctor 👩\u200d⚕️ came by bicycle 🚲,"
        " the astronaut 👨\u200d🚀"
        " was late 🚀, the pirate flag 🏴\u200d☠️ stayed at home. Rain 🌧️, sun ☀️, then both 🌦️: a rainbow 🌈! At night a polar bear"
        " 🐻\u200d❄️"
        " and a black cat 🐈\u200d⬛ said ❤️\u200d🔥 to the phoenix 🐦\u200d🔥. Good night 😴✨🌙",
    ),
    Text(
        "flags",
        "Flags: regional indicators and subdivisions",
        "en",
        "ltr",
        "Final: 🇯🇵 2:1 🇧🇷, 🇺🇦 3:3 🇵🇱, 🇮🇳🇪🇹🇰🇭 in one row, 🇨🇭 beside 🇳🇵. Subdivisions:"
        " 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f and"
        " 🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f."
        " The rainbow 🏳️\u200d🌈 flies last, 🏁.",
    ),
    Text(
        "keycaps",
        "Keycaps, skin tones and variation selectors",
        "en",
        "ltr",
        "Press 1️⃣ for tea, 2️⃣ for coffee, #️⃣ to go back, *️⃣ for 🔟. Hands: 👋🏻👋🏼👋🏽👋🏾👋🏿, 🤝🏽, 🫱🏿\u200d🫲🏻. A heart as text"
        " ❤\ufe0e and as a picture ❤\ufe0f."
        " Cooks 👩🏾\u200d🍳 and 🧑🏼\u200d🍳, a couple 👩🏽\u200d❤️\u200d👨🏻, done ✔️.",
    ),
    Text(
        "combining",
        "Combining marks: decomposed accents",
        "fr",
        "ltr",
        "Cafe\u0301, nai\u0308f, gar\u00e7on and garc\u0327on, A\u030angstro\u0308m, Vie\u0323\u0302t Nam, n\u0303o, o\u0308\u0304."
        " Twice the same word: \u00e9t\u00e9, e\u0301te\u0301. Yoruba: e\u0323\u0300ko\u0323\u0301. Hangul by letters:"
        " \u1112\u1161\u11ab\u1100\u1173\u11af."
        " Arrows over x: x\u20d7, enclosed: A\u20dd.",
    ),
    Text(
        "zalgo",
        "Zalgo, lightly: marks above and below",
        "en",
        "ltr",
        "T\u0353\u0300h\u0327\u0306e\u0330\u030b l\u0316\u0342i\u0323\u0308n\u0331\u0311e\u0326\u0301 i\u034ds\u0325\u033e"
        " n\u0339\u030ao\u0328\u0304t\u0347\u0357"
        " f\u031e\u0344a\u0349\u0346l\u0332\u0350l\u033a\u0352i\u0345\u031an\u034e\u0358g\u0318\u0360,"
        " o\u0335\u0315n\u0338\u0321l\u0336y\u0337 b\u0489e\u035cn\u0361t.",
    ),
    Text(
        "conjuncts",
        "Devanagari conjuncts",
        "hi",
        "ltr",
        "क्षमा, ज्ञान, श्री, त्रिशूल, कृष्ण, राष्ट्र, स्त्री, कर्त्ता, उज्ज्वल, द्वन्द्व, ब्रह्माण्ड, संस्कृति, क्\u200dष और क्\u200cष; ड़, ढ़, क़\u093e, हूँ,"
        " र्\u200dय, र्य। ॐ",
    ),
    Text(
        "rtl-mixed",
        "Arabic and Hebrew with Latin words and numbers inside",
        "ar",
        "rtl",
        "اشتريت هاتف Pixel 9 بسعر 1,299 درهم (خصم 15%) من متجر “Online Shop” يوم 3/7. הקוד הוא ABC-123, נכון? \u2067العنوان:"
        " Baker Street 221B\u2069. نسخة v2.0-beta\u200f! C++ أم Python؟",
    ),
    Text(
        "astral",
        "Beyond the basic plane: rare scripts and letters",
        "mul",
        "ltr",
        "𠮷野家の𩸽, 𠜎𠜱𠝹; Gothic 𐌰𐌱𐌲, Linear B 𐀀𐀁, cuneiform 𒀀𒀭, hieroglyphs 𓀀𓃠𓆣; Adlam 𞤀𞤣𞤤𞤢𞤥, Deseret 𐐔𐐯𐑅; fraktur 𝔇𝔢𝔱𝔬𝔨,"
        " script 𝓭𝓮𝓽𝓸𝓴, music 𝄞𝄢, dominoes 🁢🂡🀄.",
    ),
    Text(
        "invisible",
        "Characters that cannot be seen",
        "en",
        "ltr",
        "Soft\u00adhyphen, zero\u200bwidth\u200bspace, no\u00a0break, narrow\u202fspace, thin\u2009space, word\u2060joiner,"
        " ideographic\u3000space,"
        " line\u2028separator, left\u200eto\u200fright, joiner\u200d, non\u200cjoiner, tag\tand\ttab. Two\r\nlines.",
    ),
    Text(
        "maths",
        "Mathematics and symbols",
        "en",
        "ltr",
        "∀ε>0 ∃δ>0: |x−a|<δ ⇒ |f(x)−f(a)|<ε. ∑_{n=1}^{∞} 1/n² = π²/6, ∫₀^∞ e^{−x²} dx = √π⁄2, ℕ ⊂ ℤ ⊂ ℚ ⊂ ℝ ⊂ ℂ, ∇×𝐄 = −∂𝐁/∂t, A ∪"
        " B ≠ ∅,"
        " ⌊x⌋ ≤ x, ½ + ¼ = ¾, 5 × 10⁻³ Ω, ±0.5 °C, €12 ≈ £10, ☯ ♞ ⚑ ⠿ ▓▒░ ┌─┐",
    ),
    Text(
        "bom",
        "A text that begins with U+FEFF and has another inside",
        "en",
        "ltr",
        "\ufeffThis text begins with a byte order mark, EF BB BF, and it is text: nobody may strip it. Here is\ufeffanother one, in"
        " the middle.",
    ),
    Text(
        "replacement",
        "A genuine U+FFFD, meant as it stands",
        "en",
        "ltr",
        "The character \ufffd is called REPLACEMENT CHARACTER. A decoder writes \ufffd when bytes are broken, but a model may also"
        " write it on purpose,"
        " as here: \ufffd, é, \ufffd\ufffd, 日\ufffd本. All seven stay. \ufffd",
    ),
]

MIXED = [
    Text(
        "hello",
        "Good morning in forty languages",
        "mul",
        "ltr",
        "Good morning ☀️ Guten Morgen, schöne Grüße! Ça va ? ¡Buenos días! Bom dia, João. Buongiorno, è già tardi. Dzień dobry, żółw."
        " Dobré ráno, Jiří. Jó reggelt! Günaydın, Işık. Chào buổi sáng! Góðan daginn, Þór. Hyvää huomenta. Labrīt, Ķengarags. Доброе утро,"
        " ёж. Доброго ранку, ґаво. Өглөөний мэнд. Καλημέρα, Ήρα! დილა მშვიდობისა. Բարի լույս։ እንደምን አደሩ፧ صباح الخير يا ليلى! בוקר טוב!"
        " صبح\u200cبه\u200cخیر. صبح بخیر۔ सुप्रभात, कृष्ण। সুপ্রভাত। காலை வணக்கம்! శుభోదయం. ಶುಭೋದಯ. സുപ്രഭാതം. સુપ્રભાત. ਸ਼ੁਭ ਸਵੇਰ। සුභ උදෑසනක්!"
        " อรุณสวัสดิ์ครับ ສະບາຍດີຕອນເຊົ້າ អរុណសួស្តី! မင်္ဂလာနံနက်ခင်းပါ။ སྔ་དྲོ་བདེ་ལེགས།"
        " 早上好！早安，臺北。おはようございます🌸"
        " 좋은 아침이에요 👋🏽 👨\u200d👩\u200d👧 🇺🇳",
    )
]

FORMATS = [
    Text(
        "python",
        "Code: Python",
        "en",
        "ltr",
        '''```python
def greet(names: list[str], *, mark: str = "👋") -> str:
    """Return one line for everybody: "Olá, José 👋"."""
    lines = [f"Olá, {name.title()} {mark}" for name in names if name]
    return "\\n".join(lines) or "nobody"


if __name__ == "__main__":
    print(greet(["josé", "søren", "李雷"], mark="\\N{SPARKLES}"))
```
''',
    ),
    Text(
        "javascript",
        "Code: JavaScript with escapes",
        "en",
        "ltr",
        """```js
const words = ["caf\\u00e9", "\\u{1F600}", 'it\\'s', `${1 + 1}\\t"two"`];
const re = /^[\\p{L}\\p{M}]+(?:\\s|$)/u;
for (const w of words) {
  console.log(w, [...w].length, re.test(w) ? "✓" : "✗"); // naïve → nai\u0308ve
}
export default { "ключ": null, 価格: 1_000 };
```
""",
    ),
    Text(
        "markdown",
        "Markdown: a table and a list",
        "en",
        "ltr",
        "## Überblick 🗺️\n\n| Stadt | 人口 | мост |\n|:--|--:|:-:|\n| Köln | 1 084 000 | ✓ |\n| 京都 | 1 450 000 | ✗ |\n\n1."
        " **Fett**, *kursiv*,"
        " ~~weg~~\n2. [Link](https://example.org/ä?q=ü&x=1#é)\n   - [x] fertig\n\n> “Zitat” — &amp; Ende\n",
    ),
    Text(
        "think",
        "Reasoning in think tags, then the answer",
        "en",
        "ltr",
        "<think>\nThe user asks how many letters “naïve” has. N, a, ï, v, e: that is 5 letters. In bytes it is 6, because ï takes"
        " two 🤔. If x < 6 and"
        " x > 4, then x is 5.\n</think>\n\n“Naïve” has **5** letters, and 6 bytes in UTF-8 ✅.",
    ),
    Text(
        "tool",
        "A tool call with emoji in its arguments",
        "en",
        "ltr",
        'I will look at the weather in 京都.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "京都 🏯", "units": "°C",'
        ' "note": "for 👩\u200d👧 \\"only\\" <today>"}}\n</tool_call>',
    ),
]

TEXTS = MIXED + LANGUAGES + CHARACTERS + FORMATS
